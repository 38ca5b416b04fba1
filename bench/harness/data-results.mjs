// What bench/data.mjs compares, and what a result of it says: targets, tables for people, notes.
import { fewRounds } from './notes.mjs';

/** Our figure divided by the peer's must reach the target. */
export const topics = [
  ...pairs('records 3 KB', 'records', '3k.tfrecord', 0.8),
  each('records 3 KB: one by one', '3k.tfrecord'),
  ...pairs('records 100 KB', 'records', '100k.tfrecord', 0.8),
  each('records 100 KB: one by one', '100k.tfrecord'),
  ...pairs('parsed, in the graph', 'parsed', '3k.tfrecord', 1.0),
  ...pairs('parsed, Python loop', 'parsed', '3k.tfrecord', 1.5, 'parsed-loop'),
  ...pairs('GZIP', 'records', '3k-gzip.tfrecord', 0.9),
  { name: 'writing 3 KB Examples', task: 'write', file: 'written', peer: 'tensorflow', target: 1.0 },
  stream('tfrecord-stream'),
  stream('tfrecord-stream in JavaScript'),
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

function stream(peer) {
  return { name: 'records 3 KB', task: 'records', file: '3k.tfrecord', peer, target: 10 };
}

/** A loop that takes each record by itself, against the peer's batches. */
function each(name, file) {
  return { name, task: 'records-each', file, peer: 'tensorflow', peerTask: 'records' };
}

/** A pipeline, and the codec alone, against the same peer. */
function pairs(name, task, file, target, peerTask = task) {
  const common = { file, peer: 'tensorflow', peerTask };
  return [
    { name, task, target, ...common },
    { name: `${name}: codec alone`, task: `codec-${task}`, ...common },
  ];
}

export function judgeData({ results, pipelines, service }) {
  return [
    ...[...results, ...service].flatMap(({ name, peer, target, ratio, skipped }) =>
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

export function dataTables({ results, pipelines, service, targets }) {
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
      title: 'Data service',
      head: ['what', 'peer', 'ours', 'peer', 'ratio (quartiles)', 'target'],
      rows: service.map(({ name, peer, target, skipped, unit, ours, theirs, ratio, quartiles }) => [
        name,
        peer,
        ...(skipped === undefined
          ? [rate(ours, unit), rate(theirs, unit), spread(ratio, quartiles)]
          : ['', '', `skipped: ${skipped}`]),
        `≥ ${target}`,
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
  return [...rates, spread(ratio, quartiles), cpuRatio.toFixed(2)];
}

function spread(ratio, quartiles) {
  return `${ratio.toFixed(2)} (${quartiles.map((value) => value.toFixed(2)).join(' … ')})`;
}

function rate(value, unit) {
  return `${Math.round(value).toLocaleString('en-US')} ${unit}`;
}

function limitText(most, least) {
  return most === undefined ? `≥ ${least}` : `≤ ${most}`;
}

const foreignLimit = 0.1;

export function dataNotes({ results, service, checked, options, idleness, isPinned, crc32c }) {
  const sentences = [
    `Checksums: ${crc32c}. *By processor time* is the same ratio with the processor time of both sides in place of the time that passed: other programs on the machine change it less.`,
    'Records are taken in batches on both sides, which are given back. *One by one* is a loop over single records, each with memory of its own, against the same batches of the peer. The rows *codec alone* leave out the order of samples and new memory for each batch.',
    'For 10 times `tfrecord-stream` with its addon, checksums would have to be computed faster than the instruction of the processor does it.',
    'Batches of 16 MiB: the compute worker copies each into the memory that it shares, because the function of this pipeline makes them elsewhere; the trainer copies them from there. The peer has them there already.',
  ];
  if (checked.length > 0) {
    const records = checked.reduce((sum, file) => sum + file.records, 0);
    sentences.push(
      `Both sides read the same values from ${checked.length} files of ${records.toLocaleString('en-US')} records, one of which this checkout has written: compared by SHA-256 before the first round.`,
    );
  }
  const busiest = Math.max(0, ...service.flatMap(({ foreignShares = [] }) => foreignShares));
  if (busiest > 0)
    sentences.push(
      `Rows of the data service use all processors; their own processes and others used up to ${Math.round(100 * busiest)} % in a round.`,
    );
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
