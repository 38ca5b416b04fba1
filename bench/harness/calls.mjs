// The topic `calls` of bench:collectives: every collective as users call it. Its series, its targets and its tables.
import { KiB, MiB } from './options.mjs';

const SMALL = [4, 64, KiB];
const LARGE = [64 * KiB, 256 * KiB, MiB, 4 * MiB, 16 * MiB];

const REDUCING = ['allreduce', 'allreduce-named', 'allreduce-scaled', 'allreduce-max', 'allreduce-new'];
const EXCHANGING = ['broadcast', 'broadcast-new', 'allgather', 'reducescatter', 'alltoall'];
const GROUPED = ['grouped', 'grouped-new'];
const OBJECTS = ['broadcastObject', 'allgatherObject'];
const WATCHED = ['allreduce', 'allreduce-named', 'broadcast', 'barrier'];
const LARGE_CALLS = ['allreduce', 'allreduce-new', 'broadcast', 'allgather', 'reducescatter', 'alltoall'];

/** Which of MPI's calls does the same. */
const PEERS = {
  allreduce: 'mpi-allreduce',
  'allreduce-named': 'mpi-allreduce',
  'allreduce-scaled': 'mpi-allreduce',
  'allreduce-max': 'mpi-allreduce',
  'allreduce-new': 'mpi-allreduce-out',
  broadcast: 'mpi-broadcast',
  'broadcast-new': 'mpi-broadcast',
  allgather: 'mpi-allgather',
  reducescatter: 'mpi-reducescatter',
  alltoall: 'mpi-alltoall',
  barrier: 'mpi-barrier',
};

const NAMES = {
  allreduce: 'allreduce, in place',
  'allreduce-named': 'allreduce, in place, named',
  'allreduce-scaled': 'allreduce, in place, named, two scales',
  'allreduce-max': 'allreduce, in place, Max',
  'allreduce-new': 'allreduce, Average, new result',
  broadcast: 'broadcast, in place, named',
  'broadcast-new': 'broadcast, new result',
  grouped: 'groupedAllreduce of 16, in place, named',
  'grouped-new': 'groupedAllreduce of 16, new results',
};

const MPI_NAMES = {
  'mpi-allreduce-out': 'MPI_Allreduce, two buffers',
  'mpi-broadcast': 'MPI_Bcast',
  'mpi-allgather': 'MPI_Allgatherv',
  'mpi-reducescatter': 'MPI_Reduce_scatter',
  'mpi-alltoall': 'MPI_Alltoallv',
};

/** The jobs, as `{ name, variants, sizes }`; without small sizes there are none for calls that have no size. */
export function callJobs() {
  const forms = (suffix) => (name) => `${name}${suffix}`;
  const blocking = [...REDUCING, ...EXCHANGING, ...GROUPED];
  return [
    { name: 'calls', variants: [...blocking, 'barrier', ...OBJECTS], sizes: SMALL },
    {
      name: 'calls, promises',
      variants: [...blocking, 'barrier', ...OBJECTS].map(forms('-await')),
      sizes: SMALL,
    },
    {
      name: 'calls, unwatched',
      variants: WATCHED,
      sizes: SMALL,
      flags: ['--unwatched'],
      rename: Object.fromEntries(WATCHED.map((name) => [name, `${name}-unwatched`])),
    },
    { name: 'calls, large', variants: LARGE_CALLS, sizes: LARGE },
    { name: 'calls, large, alloc()', variants: LARGE_CALLS.map(forms('-alloc')), sizes: LARGE },
  ];
}

export const MPI_CALL_SIZES = [...SMALL, ...LARGE];
export const MPI_CALLS = [...new Set(Object.values(PEERS))];

const small = { topic: 'calls', from: 4, to: KiB };
const large = { topic: 'calls', from: 64 * KiB, to: Infinity };
const within = (ours, limit) => ({ ...small, ours, kind: 'within', limit });
const slower = (ours, limit) => ({ ...small, ours, other: PEERS[ours], kind: 'slower', limit });

export const CALL_TARGETS = [
  ...REDUCING.flatMap((name) => [within(name, 1), slower(name, 2.5)]),
  ...[...EXCHANGING, 'barrier'].flatMap((name) => [within(name, 1.5), slower(name, 4)]),
  // 16 tensors of 64 bytes are small ones, 16 of 1 KiB are not.
  ...GROUPED.map((name) => ({ ...within(name, 4), to: 64 })),
  ...[...REDUCING, ...EXCHANGING, 'barrier', ...GROUPED].map((name) => ({
    ...small,
    ours: `${name}-await`,
    other: name,
    kind: 'added',
    limit: 1,
  })),
  ...WATCHED.map((name) => ({ ...small, ours: name, other: `${name}-unwatched`, kind: 'added', limit: 0.1 })),
  ...OBJECTS.map((name) => within(name, 6)),
  ...LARGE_CALLS.map((name) => ({ ...large, ours: name, other: PEERS[name], kind: 'faster', limit: 1.15 })),
  ...LARGE_CALLS.map((name) => ({
    ...large,
    ours: `${name}-alloc`,
    other: PEERS[name],
    kind: 'faster',
    limit: 2,
  })),
];

export function callName(series) {
  const [base, form] = [
    series.replace(/-(await|alloc|unwatched)$/, ''),
    /-(await|alloc|unwatched)$/.exec(series)?.[1],
  ];
  const mpi = MPI_NAMES[series] ?? series.replace(/^mpi-./, (text) => `MPI_${text.at(-1).toUpperCase()}`);
  if (series.startsWith('mpi-')) return mpi;
  const name = NAMES[base] ?? base;
  return form === undefined
    ? name
    : `${name}, ${{ await: 'await', alloc: 'alloc()', unwatched: 'unwatched' }[form]}`;
}

/** Tables of `{ title, text, head, rows }`; `time(series, bytes)` is the text of a figure. */
export function callTables({ time, formatBytes, ratio }) {
  const rowsOf = (names, sizes, forms) =>
    names.flatMap((name) =>
      sizes
        .filter((bytes) => bytes === sizes[0] || !isWithoutSize(name))
        .map((bytes) => [
          callName(name),
          isWithoutSize(name) ? '–' : formatBytes(bytes),
          PEERS[name] === undefined ? '–' : time(PEERS[name], bytes),
          ...forms.map((form) => time(`${name}${form}`, bytes)),
          PEERS[name] === undefined ? '–' : ratio(PEERS[name], name, bytes),
        ]),
    );
  return [
    {
      title: 'Every collective, small',
      text: 'µs for one call: 2 ranks, Float32Array. The size is what a rank gives; for groups, that of each of 16 tensors.',
      head: ['call', 'size', 'Open MPI', 'Sync', 'await', 'Open MPI / Sync'],
      rows: rowsOf([...REDUCING, ...EXCHANGING, 'barrier', ...GROUPED, ...OBJECTS], SMALL, ['', '-await']),
    },
    {
      title: 'What watching costs',
      text: 'µs. Unwatched: flight recorder, status, stall and straggler reports and timeline are detached.',
      head: ['call', 'size', 'watched', 'unwatched'],
      rows: WATCHED.flatMap((name) =>
        SMALL.filter((bytes) => bytes === SMALL[0] || !isWithoutSize(name)).map((bytes) => [
          callName(name),
          isWithoutSize(name) ? '–' : formatBytes(bytes),
          time(name, bytes),
          time(`${name}-unwatched`, bytes),
        ]),
      ),
    },
    {
      title: 'Every collective, large',
      text: 'µs for one call: 2 ranks, Float32Array, rewritten before each call. The ratio is that of ordinary arrays.',
      head: ['call', 'size', 'Open MPI', 'ordinary arrays', '`alloc()`ed', 'Open MPI / ordinary'],
      rows: rowsOf(LARGE_CALLS, LARGE, ['', '-alloc']),
    },
  ];
}

function isWithoutSize(name) {
  return name === 'barrier' || OBJECTS.includes(name);
}
