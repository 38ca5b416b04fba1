// Turns a result of a bench into its page in docs/reference: bench-collectives-<processor>.md (one for each kind of processor),
// bench-training.md, bench-cluster.md,
// bench-runtime.md, bench-recovery.md, bench-chaos.md or bench-data.md.
//
// Usage: node bench/report.mjs [collectives | training | cluster | runtime | recovery | chaos | data | RESULT.json] [--output FILE]   (default: the newest of collectives)
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { chaosTables } from './harness/chaos-results.mjs';
import { buildClusterTables } from './harness/cluster-results.mjs';
import { dataTables } from './harness/data-results.mjs';
import { processorKind } from './harness/machine.mjs';
import { notes, renderNotes } from './harness/notes.mjs';
import { buildRecoveryTables } from './harness/recovery-results.mjs';
import { buildRuntimeTables } from './harness/runtime-results.mjs';
import { buildTables, renderTable } from './harness/tables.mjs';
import { buildTables as buildTrainingTables } from './harness/training-results.mjs';

const benchFolder = import.meta.dirname;
const benches = {
  collectives: { title: 'Collectives, measured', results: /^\d{4}-.*\.json$/, buildTables, notes },
  training: {
    title: 'Training, measured',
    results: /^training-.*\.json$/,
    buildTables: buildTrainingTables,
    notes: (result) => result.notes,
  },
  cluster: {
    title: 'Several hosts, measured',
    results: /^cluster-.*\.json$/,
    buildTables: buildClusterTables,
    notes: (result) => result.notes,
  },
  runtime: {
    title: 'Observability, autotune and compression, measured',
    results: /^runtime-.*\.json$/,
    buildTables: buildRuntimeTables,
    notes: (result) => result.notes,
  },
  recovery: {
    title: 'Recovery of elastic jobs, measured',
    results: /^recovery-.*\.json$/,
    buildTables: buildRecoveryTables,
    notes: (result) => result.notes,
  },
  chaos: {
    title: 'Training with faults, measured',
    results: /^chaos-.*\.json$/,
    buildTables: chaosTables,
    notes: (result) => result.notes,
  },
  data: {
    title: 'Reading training data, measured',
    results: /^data\.json$/,
    buildTables: dataTables,
    notes: (result) => result.notes,
  },
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { output: { type: 'string' } },
});

try {
  const asked = positionals[0] ?? 'collectives';
  const file = asked in benches ? newestResult(asked) : asked;
  const result = JSON.parse(readFileSync(file, 'utf8'));
  if (result.format !== 1) throw new Error(`${file} is not a result of a benchmark (format 1).`);
  const { kind = 'collectives' } = result;
  const output =
    values.output ?? path.join(benchFolder, '..', 'docs', 'reference', `${pageOf(kind, result)}.md`);
  mkdirSync(path.dirname(output), { recursive: true });
  writeFileSync(output, report(kind, result));
  process.stderr.write(
    `${path.relative(process.cwd(), output)} written from ${path.relative(process.cwd(), file)}\n`,
  );
} catch (error) {
  process.stderr.write(`report: ${error.message}\n`);
  process.exitCode = 1;
}

/** What is fast differs from processor to processor. */
function pageOf(kind, { machine }) {
  return kind === 'collectives' ? `bench-collectives-${processorKind(machine.cpu)}` : `bench-${kind}`;
}

/** Some benches run everything once. */
function rounds({ rounds: count }) {
  if (count === undefined) return '';
  return `, ${count} round${count === 1 ? '' : 's'}`;
}

function newestResult(bench) {
  const folder = path.join(benchFolder, 'results');
  let files = [];
  try {
    files = readdirSync(folder).filter((file) => benches[bench].results.test(file));
  } catch {
    // No folder is the same as an empty one.
  }
  const newest = files.sort().at(-1);
  if (newest === undefined)
    throw new Error(`no result in bench/results: run "npm run bench:${bench}" first.`);
  return path.join(folder, newest);
}

function report(kind, result) {
  const { machine, peers, idleness, options } = result;
  const facts = [
    ['command', `\`${result.command}\``],
    [
      'date',
      `${result.startedAt.slice(0, 16).replace('T', ' ')} UTC, ${Math.round(result.seconds / 60)} min${rounds(options)}`,
    ],
    ['horovod', result.version],
    ['processor', `${machine.cpu}, ${machine.cores} cores${machine.virtual ? ', virtual machine' : ''}`],
    ['caches', machine.caches.join(', ') || 'unknown'],
    ['memory', `${machine.memoryGiB} GiB, transparent huge pages: ${machine.hugePages}`],
    ['kernel', machine.kernel],
    ['Node.js', machine.node],
    ...Object.entries(peers ?? {}).map(([name, { version, why }]) => [
      `peer ${name}`,
      version ?? `missing: ${why}`,
    ]),
    ['load average', `${idleness.before.load.join(' ')} before, ${idleness.after.load.join(' ')} after`],
  ];
  return [
    `# ${benches[kind].title}`,
    '',
    `<!-- Written by bench/report.mjs from a result of bench/${kind}.mjs: do not edit by hand. -->`,
    '',
    'How these figures are measured and how far you can trust them is in [bench/README.md](../../bench/README.md).',
    '',
    '| | |',
    '| --- | --- |',
    ...facts.map(([name, text]) => `| ${name} | ${text} |`),
    '',
    ...benches[kind].buildTables(result).map(renderTable),
    renderNotes(benches[kind].notes(result)),
  ]
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
    .trimEnd()
    .concat('\n');
}
