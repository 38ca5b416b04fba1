// The targets as data, and the judge. A target compares one of our series with another at every measured size of a
// range and is met when every one of them meets it. Judged on medians; the range of a ratio over the rounds
// (slowest against quickest run) is kept beside it, because a target inside that range is not decided by one bench.
import { CALL_TARGETS } from './calls.mjs';
import { RESNET50_BYTES } from './collectives-options.mjs';
import { KiB, MiB } from './options.mjs';

// Python Horovod 0.28.1 was built and measured once, on a 2-core machine like the one these targets were set for. It is not
// run here: these are constants, in µs.
export const HOROVOD_REFERENCE = { fourBytes: 1070, resnet50Mpi: 83_100, resnet50Gloo: 173_200 };

/**
 * `limit` by kind:
 *   faster  the other's time over ours is at least this
 *   slower  our time over the other's is at most this
 *   added   our time less the other's is at most this many µs
 *   within  our time is at most this many µs
 */
export const TARGETS = [
  { ...sizes('allreduce', 4, KiB), ours: 'horovod', other: 'openmpi', kind: 'faster', limit: 1 },
  { ...sizes('allreduce', 4, KiB), ours: 'prepared', other: 'openmpi', kind: 'faster', limit: 1.3 },
  { ...sizes('allreduce', 4 * KiB, 64 * KiB), ours: 'horovod', other: 'openmpi', kind: 'faster', limit: 1.5 },
  {
    ...sizes('allreduce', 256 * KiB, 16 * MiB),
    ours: 'horovod',
    other: 'openmpi',
    kind: 'faster',
    limit: 1.15,
  },
  { ...sizes('allreduce', 64 * MiB), ours: 'horovod', other: 'openmpi', kind: 'faster', limit: 2 },
  { ...sizes('allreduce', 64 * MiB), ours: 'horovod', other: 'openmpi-tuned', kind: 'faster', limit: 1.1 },
  { ...sizes('allreduce', 64 * KiB), ours: 'alloc', other: 'openmpi', kind: 'faster', limit: 2.5 },
  { ...sizes('allreduce', 4), ours: 'horovod', other: 'gloo', kind: 'faster', limit: 4 },
  { ...sizes('allreduce', MiB), ours: 'portable', other: 'gloo', kind: 'faster', limit: 1.8 },
  // Up to 4 MiB (64 KiB with a core to spare) the operation runs inside the call, above on a thread. Beyond 256 KiB ten microseconds are less
  // than the spread of the operation itself: shown, not judged.
  { ...sizes('allreduce', 4, KiB), ours: 'await', other: 'horovod', kind: 'added', limit: 1 },
  { ...sizes('allreduce', 4 * KiB, 256 * KiB), ours: 'await', other: 'horovod', kind: 'added', limit: 10 },
  { ...one('resnet50', RESNET50_BYTES), ours: 'grouped', other: 'one', kind: 'slower', limit: 1.2 },
  {
    ...sizes('oversubscribed', 4 * KiB),
    ours: 'horovod',
    other: 'openmpi-yield',
    kind: 'faster',
    limit: 1.2,
  },
  { ...one('allreduce', 4), ours: 'horovod', reference: 'fourBytes', kind: 'faster', limit: 4 },
  { ...one('resnet50', RESNET50_BYTES), ours: 'grouped', reference: 'resnet50Mpi', kind: 'faster', limit: 4 },
  {
    ...one('resnet50', RESNET50_BYTES),
    ours: 'grouped',
    reference: 'resnet50Gloo',
    kind: 'faster',
    limit: 4,
  },
  ...CALL_TARGETS,
];

function sizes(topic, from, to = Infinity) {
  return { topic, from, to };
}

function one(topic, bytes) {
  return sizes(topic, bytes, bytes);
}

/** One figure, or undefined where it was not measured. */
export function figure(series, topic, peer, bytes) {
  return series[topic]?.[peer]?.[bytes];
}

/** The checks of one target, a size each; `met` is undefined when nothing was measured. */
export function judge(target, series) {
  const checks = [];
  for (const bytes of measuredSizes(series, target)) {
    const check = checkAt(target, series, bytes);
    if (check) checks.push({ bytes, ...check });
  }
  const met = checks.length === 0 ? undefined : checks.every((check) => check.met);
  const worst = checks.reduce((a, b) => (a === undefined || isWorse(target, b, a) ? b : a), undefined);
  return { target, checks, met, worst };
}

/** Against one size of one target: the ratio (or difference), its range over the rounds, and whether it is enough. */
export function checkAt(target, series, bytes) {
  if (bytes < target.from || bytes > target.to) return undefined;
  const ours = figure(series, target.topic, target.ours, bytes);
  if (target.kind === 'within') {
    if (!ours) return undefined;
    return { value: ours.us, range: [ours.low, ours.high], met: ours.us <= target.limit };
  }
  const other = target.reference
    ? constant(HOROVOD_REFERENCE[target.reference])
    : figure(series, target.topic, target.other, bytes);
  if (!ours || !other) return undefined;
  switch (target.kind) {
    case 'faster': {
      const value = other.us / ours.us;
      return { value, range: [other.low / ours.high, other.high / ours.low], met: value >= target.limit };
    }
    case 'slower': {
      const value = ours.us / other.us;
      return { value, range: [ours.low / other.high, ours.high / other.low], met: value <= target.limit };
    }
    case 'added': {
      const value = ours.us - other.us;
      return { value, range: [ours.low - other.high, ours.high - other.low], met: value <= target.limit };
    }
    default:
      throw new Error(`no such kind of target: ${target.kind}`);
  }
}

/** The target that judges `ours` against `other` at this size, if there is one. */
export function targetFor(topic, ours, other, bytes) {
  return TARGETS.find(
    (target) =>
      target.topic === topic &&
      target.ours === ours &&
      target.other === other &&
      bytes >= target.from &&
      bytes <= target.to,
  );
}

function measuredSizes(series, { topic, ours }) {
  return Object.keys(series[topic]?.[ours] ?? {}).map(Number);
}

function constant(us) {
  return { us, low: us, high: us };
}

function isWorse({ kind }, a, b) {
  return kind === 'faster' ? a.value < b.value : a.value > b.value;
}
