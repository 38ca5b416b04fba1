// What bench/data.mjs compares, and what a result of it says: targets, tables for people, notes.
import { fewRounds } from './notes.mjs';

/** Our figure divided by the peer's must reach the target. Rows of the data service belong here, too. */
export const topics = [
  ...pairs('records 3 KB', 'records', '3k.tfrecord', 0.8),
  ...pairs('records 100 KB', 'records', '100k.tfrecord', 0.8),
  ...pairs('parsed, in the graph', 'parsed', '3k.tfrecord', 1.0),
  ...pairs('parsed, Python loop', 'parsed', '3k.tfrecord', 1.5, 'parsed-loop'),
  ...pairs('GZIP', 'records', '3k-gzip.tfrecord', 0.9),
  { name: 'writing 3 KB Examples', task: 'write', file: 'written', peer: 'tensorflow', target: 1.0 },
  { name: 'records 3 KB', task: 'records', file: '3k.tfrecord', peer: 'tfrecord-stream', target: 10 },
];

/** A figure of ours has a limit. `stepMs` and `mapMs`: see peers/data-pipelines.mjs. */
export const pipelineTopics = [
  {
    ...pipeline('starved share, map-bound', 'starved', { stepMs: 20, mapMs: 10 }),
    most: 0.05,
  },
  { ...pipeline('starved share, data ready', 'starved', { stepMs: 20, mapMs: 0 }), most: 0.01 },
  { ...pipeline('first batch after restore() at 90 %, against a fresh start', 'restore', {}), most: 1.2 },
  { ...pipeline('training from files, against tensors in memory', 'training', {}), least: 0.97 },
];

function pipeline(name, task, options) {
  return { name, task, file: '3k.tfrecord', ...options };
}

/** A pipeline, and the codec alone, against the same peer. */
function pairs(name, task, file, target, peerTask = task) {
  const common = { file, peer: 'tensorflow', peerTask };
  return [
    { name, task, target, ...common },
    { name: `${name}: codec alone`, task: `codec-${task}`, ...common },
  ];
}

export function judgeData({ results, pipelines }) {
  return [
    ...results.flatMap(({ name, peer, target, ratio, skipped }) =>
      target === undefined || skipped !== undefined
        ? []
        : [{ target: `${name}: ≥ ${target} × ${peer}`, figure: ratio.toFixed(2), met: ratio >= target }],
    ),
    ...pipelines.map(({ name, value, most, least }) => ({
      target: `${name}: ${limitText(most, least)}`,
      figure: value.toFixed(3),
      met: most === undefined ? value >= least : value <= most,
    })),
  ];
}

export function dataTables({ results, pipelines, targets }) {
  return [
    {
      title: 'Reading and writing, one core',
      head: [
        'what',
        'peer',
        'ours, records/s',
        'MB/s',
        'peer, records/s',
        'MB/s',
        'ratio (quartiles)',
        'by processor time',
        'target',
      ],
      rows: results.map(({ name, peer, target, skipped, ...figures }) => [
        name,
        peer,
        ...(skipped === undefined ? figureCells(figures) : ['', '', '', '', `skipped: ${skipped}`, '']),
        target === undefined ? '' : `≥ ${target}`,
      ]),
    },
    {
      title: 'Pipelines with a thread',
      head: ['what', 'figure', 'quartiles', 'target'],
      rows: pipelines.map(({ name, value, quartiles, most, least }) => [
        name,
        value.toFixed(3),
        quartiles.map((each) => each.toFixed(3)).join(' … '),
        limitText(most, least),
      ]),
    },
    {
      title: 'Targets',
      head: ['target', 'measured', ''],
      rows: targets.map(({ target, figure, met }) => [target, figure, met ? 'met' : 'missed']),
    },
  ];
}

function figureCells({ ours, theirs, ratio, quartiles, cpuRatio }) {
  const rates = [ours, theirs].flatMap(({ recordsPerSecond, mbPerSecond }) => [
    Math.round(recordsPerSecond).toLocaleString('en-US'),
    String(Math.round(mbPerSecond)),
  ]);
  return [
    ...rates,
    `${ratio.toFixed(2)} (${quartiles.map((each) => each.toFixed(2)).join(' … ')})`,
    cpuRatio.toFixed(2),
  ];
}

function limitText(most, least) {
  return most === undefined ? `≥ ${least}` : `≤ ${most}`;
}

const foreignLimit = 0.1;

export function dataNotes({ results, options, idleness, isPinned, crc32c }) {
  const sentences = [
    `Checksums: ${crc32c}. *By processor time* is the same ratio with the processor time of both sides in place of the time that passed: other programs on the machine change it less.`,
    'The rows *codec alone* leave out the order of samples and new memory for each batch. Rows of the data service will follow.',
  ];
  if (!isPinned)
    sentences.push('The contestants were not bound to one core, because taskset is not installed.');
  const shares = results.flatMap(({ foreignShares = [] }) => foreignShares);
  const disturbed = shares.filter((share) => share > foreignLimit);
  if (disturbed.length > 0) {
    sentences.push(
      `The machine was not idle: in ${disturbed.length} of ${shares.length} rounds other programs used more than ${100 * foreignLimit} % of its processors, also after repeating them (at most ${Math.round(100 * Math.max(...disturbed))} %).`,
    );
  }
  if (!idleness.before.idle)
    sentences.push(`The machine was not idle at the start: load ${idleness.before.load[0]}.`);
  return [...sentences, ...fewRounds(options, 5)];
}
