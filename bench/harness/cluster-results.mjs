// What a result of bench/cluster.mjs says: targets, tables for people, notes.
import { TOPICS } from './cluster-jobs.mjs';
import { FOREIGN_LIMIT } from './machine.mjs';
import { failedJobs, fewRounds, missingPeers } from './notes.mjs';
import { KiB, MiB } from './options.mjs';
import { formatBytes, formatUs } from './tables.mjs';
import { judge } from './targets.mjs';

const small = { from: 4, to: 64 * KiB };
const large = { from: MiB, to: Infinity };
const grouped = { from: 64 * KiB, to: Infinity };
/** `faster`: the other's time over ours is at least this. */
const TARGETS = [
  { topic: '2x1', ...small, ours: 'tcp', other: 'openmpi', limit: 1.1 },
  { topic: '2x1', from: 4, to: Infinity, ours: 'tcp', other: 'gloo', limit: 1.15 },
  { topic: '2x1-1gbit', ...large, ours: 'tcp', other: 'line', limit: 0.93 },
  { topic: '2x1-10gbit', ...large, ours: 'tcp', other: 'line', limit: 0.85 },
  { topic: '2x1-10gbit', ...large, ours: 'tcp-encrypted', other: 'line', limit: 0.6 },
  { topic: '2x1-1gbit', ...large, ours: 'tcp-fp16', other: 'tcp', limit: 1.8 },
  ...['2x2', '4x2'].flatMap((topic) => [
    { topic, ...grouped, ours: 'hierarchical', other: 'flat', limit: 1 },
    { topic, ...grouped, ours: 'hierarchical', other: 'openmpi-tcp', limit: 1 },
    { topic, ...grouped, ours: 'hierarchical', other: 'openmpi', limit: 1 },
  ]),
].map((target) => ({ ...target, kind: 'faster' }));

const STARTUP_LIMIT_MS = 1500;

/** Adds the time that the line itself would need: every rank sends and receives as many bytes as the tensor has. */
export function addLines(series) {
  for (const [topic, { gbit }] of Object.entries(TOPICS)) {
    if (gbit === undefined || series[topic] === undefined) continue;
    const sizes = new Set(Object.values(series[topic]).flatMap((peer) => Object.keys(peer).map(Number)));
    series[topic].line = Object.fromEntries(
      [...sizes].map((bytes) => {
        const us = (bytes * 8) / (gbit * 1000);
        return [bytes, { us, low: us, high: us, runs: [] }];
      }),
    );
  }
  return series;
}

export function judgeCluster(series) {
  const judged = TARGETS.map((target) => judge(target, series));
  const start = series.startup?.start?.[0] ?? series.startup?.whole?.[0];
  if (start !== undefined) {
    judged.push({
      target: { topic: 'startup', ours: 'start', limit: STARTUP_LIMIT_MS },
      met: start.us <= STARTUP_LIMIT_MS * 1000,
      ms: start.us / 1000,
    });
  }
  return judged;
}

const ORDER = [
  'tcp',
  'tcp-encrypted',
  'hierarchical',
  'flat',
  'tcp-fp16',
  'mpi',
  'gloo-transport',
  'portable',
  'portable-encrypted',
  'openmpi',
  'openmpi-tcp',
  'gloo',
];
const NAMES = {
  tcp: '**tcp**',
  hierarchical: '**hierarchical**',
  'tcp-fp16': 'tcp, fp16',
  'tcp-encrypted': 'tcp, encrypted',
  'portable-encrypted': 'portable, encrypted',
  mpi: 'our mpi transport',
  'gloo-transport': 'our gloo transport',
  openmpi: 'Open MPI',
  'openmpi-tcp': 'Open MPI, TCP only',
  gloo: 'Gloo',
  wire: 'raw TCP',
  line: 'the line',
  aes: 'AES alone',
};

export function buildClusterTables(result) {
  const tables = [];
  for (const [topic, { title }] of Object.entries(TOPICS)) {
    const series = result.series[topic];
    if (series === undefined) continue;
    tables.push(topic === 'startup' ? startupTable(title, series) : sizesTable(topic, title, series));
  }
  tables.push(targetsTable(result.targets));
  return tables;
}

function sizesTable(topic, title, series) {
  const peers = [...ORDER, 'wire', 'line', 'aes'].filter((peer) => series[peer] !== undefined);
  const sizes = [...new Set(peers.flatMap((peer) => Object.keys(series[peer]).map(Number)))];
  sizes.sort((a, b) => a - b);
  const isShared = TOPICS[topic].slots > 1;
  return {
    title,
    text: isShared
      ? 'µs for one allreduce (float32, sum, in place), median over the rounds. All hosts share the cores of this machine; Open MPI with yield.'
      : 'µs for one allreduce (float32, sum, in place), median over the rounds, with Gbit/s in each direction in brackets. Raw TCP: both sides send the same number of bytes at the same time.',
    head: ['size', ...peers.map((peer) => NAMES[peer] ?? peer)],
    rows: sizes.map((bytes) => [
      formatBytes(bytes),
      ...peers.map((peer) => {
        const us = series[peer][bytes]?.us;
        if (us === undefined) return '–';
        return isShared || bytes < MiB
          ? formatUs(us)
          : `${formatUs(us)} (${((bytes * 8) / us / 1000).toFixed(2)})`;
      }),
    ]),
  };
}

function startupTable(title, series) {
  const ms = ({ us }) => `${Math.round(us / 1000)}`;
  return {
    title,
    text: 'ms for each phase, as `horovodrun --verbose` prints them. Whole: the whole command, with ranks that join the job and leave.',
    head: ['phase', 'median', 'fastest', 'slowest'],
    rows: Object.entries(series).map(([phase, { 0: figure }]) => [
      phase,
      ms(figure),
      ms({ us: figure.low }),
      ms({ us: figure.high }),
    ]),
  };
}

function targetsTable(targets) {
  return {
    title: 'Targets',
    text: 'The other program’s time divided by ours at the worst size, its range over the rounds (slowest against fastest), and the target.',
    head: ['where', 'what', 'target', 'measured', 'at', 'range', 'met'],
    rows: targets.map(({ target, worst, met, ms }) => {
      const { topic, ours, other, limit } = target;
      if (ms !== undefined) {
        return [TOPICS[topic].title, 'start', `≤ ${limit} ms`, `${Math.round(ms)} ms`, '', '', word(met)];
      }
      const [low, high] = worst?.range ?? [];
      return [
        TOPICS[topic].title,
        `${ours} against ${other}`,
        `≥ ${limit}`,
        worst === undefined ? 'not measured' : worst.value.toFixed(2),
        worst === undefined ? '' : formatBytes(worst.bytes),
        worst === undefined ? '' : `${low.toFixed(2)} … ${high.toFixed(2)}`,
        word(met),
      ];
    }),
  };
}

const word = (met) => (met === undefined ? '–' : met ? 'yes' : '**no**');

export function clusterNotes({ peers, failures, runs, idleness, options }) {
  const notes = [...missingPeers(peers), ...failedJobs(failures)];
  notes.push(
    'The hosts are network namespaces of one machine, connected by a bridge. They share its cores, clock and caches, so the figures compare programs and say nothing about a real network.',
    'With one rank per host, each rank of every program has its own core (taskset), since real hosts do not share cores.',
    'Raw TCP is a baseline, not a limit: one thread and one socket with the default settings of the kernel. Without a bandwidth limit, figures around 1 MiB have two modes for every program (the socket buffers suffice or not). Compare over many rounds, or at other sizes.',
    'A bandwidth limit (tbf) allows bursts of 256 KiB at each end, so sizes up to 1 MiB can seem faster than the line.',
  );
  // Processes of the hosts are not children of this one, so their time counts as foreign. Only steal is certain.
  const stolen = runs.filter(({ steal }) => steal > FOREIGN_LIMIT);
  if (stolen.length > 0)
    notes.push(`In ${stolen.length} of ${runs.length} runs another guest took processor time.`);
  if (!idleness.before.idle)
    notes.push(`The machine was not idle at the start: load ${idleness.before.load[0]}.`);
  return [...notes, ...fewRounds(options, 3)];
}
