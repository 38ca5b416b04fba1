// Turns a result of bench/collectives.mjs into docs/reference/bench-collectives.md.
//
// Usage: node bench/report.mjs [RESULT.json] [--output FILE]   (default: the newest file in bench/results)
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { notes, renderNotes } from './harness/notes.mjs';
import { buildTables, renderTable } from './harness/tables.mjs';

const benchFolder = import.meta.dirname;
const defaultOutput = path.join(benchFolder, '..', 'docs', 'reference', 'bench-collectives.md');

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { output: { type: 'string', default: defaultOutput } },
});

try {
  const file = positionals[0] ?? newestResult();
  const result = JSON.parse(readFileSync(file, 'utf8'));
  if (result.format !== 1) throw new Error(`${file} is not a result of bench/collectives.mjs (format 1).`);
  mkdirSync(path.dirname(values.output), { recursive: true });
  writeFileSync(values.output, report(result));
  process.stderr.write(
    `${path.relative(process.cwd(), values.output)} written from ${path.relative(process.cwd(), file)}\n`,
  );
} catch (error) {
  process.stderr.write(`report: ${error.message}\n`);
  process.exitCode = 1;
}

function newestResult() {
  const folder = path.join(benchFolder, 'results');
  let files = [];
  try {
    files = readdirSync(folder).filter((file) => /^\d{4}-.*\.json$/.test(file));
  } catch {
    // No folder is the same as an empty one.
  }
  const newest = files.sort().at(-1);
  if (newest === undefined)
    throw new Error('no result in bench/results: run "npm run bench:collectives" first.');
  return path.join(folder, newest);
}

function report(result) {
  const { machine, peers, idleness, options } = result;
  const facts = [
    ['command', `\`${result.command}\``],
    [
      'date',
      `${result.startedAt.slice(0, 16).replace('T', ' ')} UTC, ${Math.round(result.seconds / 60)} min, ${options.rounds} round${options.rounds === 1 ? '' : 's'}`,
    ],
    ['horovod', result.version],
    ['processor', `${machine.cpu}, ${machine.cores} cores${machine.virtual ? ', virtual machine' : ''}`],
    ['caches', machine.caches.join(', ') || 'unknown'],
    ['memory', `${machine.memoryGiB} GiB, transparent huge pages: ${machine.hugePages}`],
    ['kernel', machine.kernel],
    ['Node.js', machine.node],
    ...Object.entries(peers).map(([name, { version, why }]) => [
      `peer ${name}`,
      version ?? `missing: ${why}`,
    ]),
    ['load average', `${idleness.before.load.join(' ')} before, ${idleness.after.load.join(' ')} after`],
  ];
  return [
    '# Collectives, measured',
    '',
    '<!-- Written by bench/report.mjs from a result of bench/collectives.mjs: do not edit by hand. -->',
    '',
    'How these figures come about and what they do not say is in [bench/README.md](../../bench/README.md).',
    '',
    '| | |',
    '| --- | --- |',
    ...facts.map(([name, text]) => `| ${name} | ${text} |`),
    '',
    ...buildTables(result).map(renderTable),
    renderNotes(notes(result)),
  ]
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
    .trimEnd()
    .concat('\n');
}
