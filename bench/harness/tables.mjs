// Turns the figures of a bench into Markdown: a table per topic with the time of every peer, the ratio, the target and
// whether it is met, then the targets in one table. Pure: the same JSON gives the same text, on the terminal and in docs/.
import { callName, callTables } from './calls.mjs';
import { RESNET50_BYTES } from './collectives-options.mjs';
import { KiB, MiB } from './options.mjs';
import { checkAt, figure, HOROVOD_REFERENCE, judge, TARGETS, targetFor } from './targets.mjs';

const NAMES = {
  openmpi: 'Open MPI',
  'openmpi-tuned': 'Open MPI, tuned',
  'openmpi-yield': 'Open MPI, yield',
  gloo: 'Gloo',
  memcpy: 'memcpy',
  add: 'add',
  horovod: '`allreduceSync`',
  prepared: 'prepared',
  alloc: '`alloc()`ed',
  await: '`await allreduce`',
  portable: 'portable transport',
  'no-fingerprint': 'no fingerprint',
  read: 'with a read, ordinary',
  'alloc-read': 'with a read, `alloc()`ed',
  one: 'one tensor',
  grouped: '161 tensors, grouped',
  'one-alloc': 'one tensor, `alloc()`ed',
  'grouped-alloc': '161 tensors, grouped, `alloc()`ed',
};

const REFERENCE_NAMES = {
  fourBytes: 'Python Horovod (reference)',
  resnet50Mpi: 'Python Horovod, MPI (reference)',
  resnet50Gloo: 'Python Horovod, Gloo (reference)',
};

/** Which peer has to be there for a series. */
const PEER_OF = { memcpy: 'memory', add: 'memory', 'openmpi-yield': 'openmpi' };

/** All tables of a result, as `{ title, text, head, rows }`. */
export function buildTables(result) {
  const topics = result.options.topics;
  const tables = [];
  if (topics.includes('allreduce')) tables.push(...allreduceTables(result));
  if (topics.includes('resnet50')) tables.push(resnet50Table(result));
  if (topics.includes('oversubscribed')) tables.push(oversubscribedTable(result));
  if (topics.includes('calls')) tables.push(...tablesOfCalls(result));
  if (topics.includes('startup')) tables.push(startupTable(result));
  const targets = targetTable(result);
  if (targets.rows.length > 0) tables.push(targets);
  return tables;
}

export function renderTable({ title, text, head, rows }) {
  const widths = head.map((cell, column) =>
    Math.max(cell.length, ...rows.map((row) => row[column].length), 3),
  );
  const line = (cells) => `| ${cells.map((cell, column) => pad(cell, widths[column], column)).join(' | ')} |`;
  const rule = `| ${widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`)).join(' | ')} |`;
  return [`## ${title}`, '', ...(text ? [text, ''] : []), line(head), rule, ...rows.map(line), ''].join('\n');
}

export function formatBytes(bytes) {
  if (bytes === RESNET50_BYTES) return '102 MB';
  if (bytes >= MiB && bytes % MiB === 0) return `${bytes / MiB} MiB`;
  if (bytes >= KiB && bytes % KiB === 0) return `${bytes / KiB} KiB`;
  return `${bytes} B`;
}

export function formatUs(us) {
  if (us < 10) return us.toFixed(2);
  if (us < 100) return us.toFixed(1);
  // Groups of three digits; the JSON keeps the exact figure.
  return Math.round(us)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ' ');
}

function allreduceTables(result) {
  const against = (ours, others, besides) =>
    comparison(result, { topic: 'allreduce', ours, others, besides });
  return [
    {
      title: 'allreduceSync against Open MPI',
      text: 'µs for one operation: 2 ranks, ordinary Float32Array, op Sum, in place. memcpy and add: the limit of the memory, with both cores busy.',
      ...against('horovod', ['openmpi', 'openmpi-tuned'], ['memcpy', 'add']),
    },
    {
      title: 'Prepared allreduce against Open MPI',
      text: 'µs. `prepareAllreduce` once, then `runSync()`.',
      ...against('prepared', ['openmpi'], []),
    },
    {
      title: 'alloc()ed tensors against Open MPI',
      text: 'µs. The operation leaves part of the result in the cache of the other core, so the last two columns include one full read of the result.',
      ...against('alloc', ['openmpi'], ['memcpy', 'add', 'read', 'alloc-read']),
    },
    {
      title: 'allreduceSync against Gloo',
      text: 'µs. Gloo through torch.distributed, one thread per rank.',
      ...against('horovod', ['gloo'], []),
    },
    {
      title: 'Portable transport against Gloo',
      text: 'µs. `HOROVOD_NATIVE=0`: no native code at all.',
      ...against('portable', ['gloo'], []),
    },
    awaitTable(result),
    agreementTable(result),
  ];
}

/** Time of everyone, then for each opponent ratio, target and verdict. */
function comparison(result, { topic, ours, others, besides }) {
  const { series, options } = result;
  const shown = [...besides.filter((peer) => peer === 'memcpy' || peer === 'add'), ...others, ours];
  const after = besides.filter((peer) => !shown.includes(peer));
  const head = ['size', ...shown.map(nameOf), 'GB/s'];
  for (const other of others) head.push(`${nameOf(other)} / ours`, 'target', 'met');
  head.push(...after.map(nameOf));
  const rows = options.sizes.map((bytes) => {
    const row = [formatBytes(bytes), ...shown.map((peer) => time(result, topic, peer, bytes))];
    const mine = figure(series, topic, ours, bytes);
    row.push(mine ? (bytes / mine.us / 1000).toFixed(2) : '–');
    for (const other of others) row.push(...verdict(series, topic, ours, other, bytes));
    row.push(...after.map((peer) => time(result, topic, peer, bytes)));
    return row;
  });
  return { head, rows };
}

function verdict(series, topic, ours, other, bytes) {
  const target = targetFor(topic, ours, other, bytes);
  const any = target ?? { topic, ours, other, from: 0, to: Infinity, kind: 'faster', limit: 0 };
  const check = checkAt(any, series, bytes);
  const ratio = check ? `${check.value.toFixed(2)}×` : '–';
  return [ratio, target ? limitText(target) : '', target && check ? yesNo(check.met) : ''];
}

function awaitTable(result) {
  const rows = result.options.sizes.map((bytes) => {
    const target = targetFor('allreduce', 'await', 'horovod', bytes);
    const any = target ?? {
      topic: 'allreduce',
      ours: 'await',
      other: 'horovod',
      from: 0,
      to: Infinity,
      kind: 'added',
      limit: 0,
    };
    const check = checkAt(any, result.series, bytes);
    const times = ['horovod', 'await'].map((peer) => time(result, 'allreduce', peer, bytes));
    const judged = target && check ? yesNo(check.met) : '';
    return [
      formatBytes(bytes),
      ...times,
      check ? signed(check.value) : '–',
      target ? limitText(target) : '',
      judged,
    ];
  });
  return {
    title: 'What await adds',
    text: 'µs. If there are no spare cores, as here, operations of up to 4 MiB run inside the call if the peers are ready; larger ones run on the thread of the process set. From 1 MiB on the difference is smaller than the spread of the operation.',
    head: ['size', nameOf('horovod'), nameOf('await'), 'added', 'target', 'met'],
    rows,
  };
}

function agreementTable(result) {
  const { series, options, hasFingerprintSwitch } = result;
  const minus = (other, bytes) => {
    const [sync, less] = ['horovod', other].map((peer) => figure(series, 'allreduce', peer, bytes));
    return sync && less ? signed(sync.us - less.us) : '–';
  };
  const text = hasFingerprintSwitch
    ? 'µs. No fingerprint: the ranks do not compare their operations. Prepared: the ranks have agreed once beforehand, and the call checks and plans nothing.'
    : 'µs. This build cannot leave out the fingerprint (HOROVOD_BENCH_NO_FINGERPRINT), so the cost is the difference to a prepared operation, which the ranks have agreed on beforehand. The difference also contains the checks and planning of a call, so it is an upper bound.';
  return {
    title: 'What agreement costs',
    text,
    head: [
      'size',
      nameOf('horovod'),
      nameOf('no-fingerprint'),
      'fingerprint',
      nameOf('prepared'),
      'against prepared',
    ],
    rows: options.sizes
      .filter((bytes) => bytes <= 64 * KiB)
      .map((bytes) => [
        formatBytes(bytes),
        time(result, 'allreduce', 'horovod', bytes),
        hasFingerprintSwitch ? time(result, 'allreduce', 'no-fingerprint', bytes) : 'no switch',
        minus('no-fingerprint', bytes),
        time(result, 'allreduce', 'prepared', bytes),
        minus('prepared', bytes),
      ]),
  };
}

function resnet50Table(result) {
  const row = (label, topic, peer) => {
    const [it, grouped] = [
      figure(result.series, topic, peer, RESNET50_BYTES),
      figure(result.series, 'resnet50', 'grouped', RESNET50_BYTES),
    ];
    const ms = it ? (it.us / 1000).toFixed(2) : time(result, topic, peer, RESNET50_BYTES);
    return [label, ms, it && grouped ? `${(it.us / grouped.us).toFixed(2)}×` : '–'];
  };
  const reference = (label, us) => {
    const grouped = figure(result.series, 'resnet50', 'grouped', RESNET50_BYTES);
    return [label, (us / 1000).toFixed(1), grouped ? `${(us / grouped.us).toFixed(2)}×` : '–'];
  };
  return {
    title: 'The gradients of ResNet-50: 161 tensors, 102 MB',
    text: 'ms for one step, 2 ranks, in place. The peers reduce one flat buffer of the same size. Python Horovod was measured on another day (see bench/README.md), with 161 tensors.',
    head: ['what', 'ms', '/ grouped'],
    rows: [
      ...['grouped', 'one', 'grouped-alloc', 'one-alloc'].map((peer) => row(nameOf(peer), 'resnet50', peer)),
      ...['openmpi', 'openmpi-tuned', 'gloo'].map((peer) =>
        row(`${nameOf(peer)}, one buffer`, 'allreduce', peer),
      ),
      reference('Python Horovod 0.28.1, MPI (reference)', HOROVOD_REFERENCE.resnet50Mpi),
      reference('Python Horovod 0.28.1, Gloo (reference)', HOROVOD_REFERENCE.resnet50Gloo),
    ],
  };
}

function oversubscribedTable(result) {
  return {
    title: `4 ranks on ${result.machine.cores} cores against Open MPI`,
    text: 'µs. Open MPI with `--oversubscribe` where there are fewer cores than ranks, and `--mca mpi_yield_when_idle 1`.',
    ...comparison(result, {
      topic: 'oversubscribed',
      ours: 'horovod',
      others: ['openmpi-yield'],
      besides: [],
    }),
  };
}

function startupTable(result) {
  const bare = figure(result.series, 'startup', 'node-twice', 0);
  const row = (label, peer) => {
    const it = figure(result.series, 'startup', peer, 0);
    if (!it) return [label, time(result, 'startup', peer, 0), '–', '–'];
    const range = `${ms(it.low)}–${ms(it.high)}`;
    return [
      label,
      ms(it.us),
      range,
      bare ? `${it.us >= bare.us ? '+' : '−'}${ms(Math.abs(it.us - bare.us))}` : '–',
    ];
  };
  return {
    title: 'Start-up',
    text: 'ms from the start of the command to the exit of all processes, 2 ranks.',
    head: ['what', 'ms', 'range of rounds', 'over bare node'],
    rows: [
      row('bare `node`, twice at once', 'node-twice'),
      row('`horovodrun -np 2`, empty script', 'horovodrun-empty'),
      row('`horovodrun -np 2`, init and shutdown', 'horovodrun-init'),
    ],
  };
}

function tablesOfCalls(result) {
  return callTables({
    formatBytes,
    time: (series, bytes) => time(result, 'calls', series, bytes),
    ratio: (other, ours, bytes) => verdict(result.series, 'calls', ours, other, bytes)[0],
  });
}

function targetTable(result) {
  const rows = TARGETS.filter(({ topic }) => result.options.topics.includes(topic)).map((target) => {
    const { met, worst } = judge(target, result.series);
    const other =
      target.kind === 'within'
        ? '–'
        : target.reference
          ? REFERENCE_NAMES[target.reference]
          : nameOf(target.other, target.topic);
    const worstText = worst
      ? `${valueText(target, worst.value)} at ${formatBytes(worst.bytes)}`
      : 'not measured';
    const range = worst ? worst.range.map((value) => valueText(target, value)).join(' … ') : '';
    return [
      `${nameOf(target.ours, target.topic)}, ${rangeText(target)}`,
      other,
      limitText(target),
      worstText,
      range,
      met === undefined ? '–' : yesNo(met),
    ];
  });
  return {
    title: 'Targets',
    text: 'The worst size for each target. The range compares our slowest run with their fastest and the other way round. If a target lies within its range, this benchmark alone does not decide it.',
    head: ['ours', 'against', 'target', 'worst', 'its range', 'met'],
    rows,
  };
}

/** A time in µs, or the reason why there is none: no column stays silently empty. */
function time(result, topic, peer, bytes) {
  const it = figure(result.series, topic, peer, bytes);
  if (it) return formatUs(it.us);
  const needed = PEER_OF[peer] ?? peer;
  const status = result.peers[needed];
  if (status?.ready === false) return 'missing';
  if (['openmpi', 'openmpi-tuned', 'gloo', 'memory'].includes(needed) && !status) return 'left out';
  const failures = Object.values(result.failures);
  if (failures.some((failure) => failure.topic === topic && failure.series.includes(peer))) return 'failed';
  return '–';
}

function nameOf(peer, topic) {
  return (topic === 'calls' ? undefined : NAMES[peer]) ?? callName(peer);
}

function limitText({ kind, limit }) {
  if (kind === 'within') return `≤ ${limit} µs`;
  return kind === 'faster' ? `≥ ${limit}×` : kind === 'slower' ? `≤ ${limit}×` : `≤ +${limit} µs`;
}

function valueText({ kind }, value) {
  if (kind === 'within') return `${formatUs(value)} µs`;
  return kind === 'added' ? `${signed(value)} µs` : `${value.toFixed(2)}×`;
}

function rangeText({ topic, from, to }) {
  const ranks = topic === 'oversubscribed' ? ', 4 ranks' : '';
  if (from === RESNET50_BYTES) return 'ResNet-50';
  if (to === from) return formatBytes(from);
  return `${to === Infinity ? `≥ ${formatBytes(from)}` : `${formatBytes(from)} … ${formatBytes(to)}`}${ranks}`;
}

function signed(us) {
  return `${us < 0 ? '−' : '+'}${formatUs(Math.abs(us))}`;
}

function ms(us) {
  return (us / 1000).toFixed(1);
}

function yesNo(met) {
  return met ? 'yes' : '**no**';
}

function pad(cell, width, column) {
  return column === 0 ? cell.padEnd(width) : cell.padStart(width);
}
