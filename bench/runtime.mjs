// `npm run bench:runtime`: what watching costs (flight recorder, timeline), what autotune gains on a slow line, and what each
// compressor saves and does to the accuracy; prints Markdown tables and writes the figures as JSON. See README.md beside.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { clearEnvironment } from './harness/cluster-jobs.mjs';
import { describeMachine, loadAverage, sampleIdleness } from './harness/machine.mjs';
import { renderNotes } from './harness/notes.mjs';
import { interleave } from './harness/rounds.mjs';
import { planRuntimeJobs, TOPICS } from './harness/runtime-jobs.mjs';
import { buildRuntimeTables, gatherRuntime, judgeRuntime, runtimeNotes } from './harness/runtime-results.mjs';
import { renderTable } from './harness/tables.mjs';

const HELP = `npm run bench:runtime -- [flags]

Measures this checkout's build: the cost of the flight recorder and of the timeline, the gain of autotune between two hosts in a box
on a line of 1 Gbit/s, and bytes, time and accuracy of every compressor. Interleaved. Progress goes to stderr, tables to stdout.

  --quick             one round, short runs: a look, not a result
  --rounds N          how often every job runs (5; 1 with --quick)
  --topics LIST       ${Object.keys(TOPICS).join(',')} (all; those with hosts need root on Linux)
  --json FILE         where the figures go (bench/results/runtime-<date>.json)
  --check             exit 1 when a target is missed or a job failed
  --help              this text
`;

const benchFolder = import.meta.dirname;
const root = path.join(benchFolder, '..');
const say = (text) => process.stderr.write(`bench: ${text}\n`);
const interrupted = new AbortController();
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => interrupted.abort());

try {
  process.exitCode = await main(process.argv.slice(2), interrupted.signal);
} catch (error) {
  say(error.message);
  process.exitCode = interrupted.signal.aborted ? 130 : 2;
}

async function main(argv, signal) {
  const options = readOptions(argv);
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  if (!existsSync(path.join(root, '.dist-test/test/support/box.js')))
    throw new Error('dist/ is missing: build first, with "npm install" or "npm run build".');
  clearEnvironment();
  const before = await sampleIdleness(signal);
  if (!before.idle) say(`warning: the machine is not idle (load ${before.load[0]})`);
  const startedAt = new Date();
  const samples = [];
  const measured = await withBox(options, async (box) => {
    const setup = { box, root, benchFolder, ...options };
    return await interleave(planRuntimeJobs(setup), options.rounds, { say, signal }, (_job, result) => {
      samples.push(...result.samples);
    });
  });
  const result = {
    format: 1,
    kind: 'runtime',
    command: `npm run bench:runtime${argv.length === 0 ? '' : ` -- ${argv.join(' ')}`}`,
    startedAt: startedAt.toISOString(),
    seconds: Math.round((Date.now() - startedAt.getTime()) / 1000),
    version: JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')).version,
    options: { rounds: options.rounds, quick: options.quick, topics: options.topics },
    machine: describeMachine(),
    idleness: { before, after: { load: loadAverage() } },
    series: gatherRuntime(samples),
    ...measured,
  };
  result.targets = judgeRuntime(result.series);
  result.notes = runtimeNotes(result);
  const date = startedAt.toISOString().slice(0, 16).replace(':', '');
  const file = options.json ?? path.join(benchFolder, 'results', `runtime-${date}.json`);
  mkdirSync(path.dirname(path.resolve(file)), { recursive: true });
  writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
  for (const table of buildRuntimeTables(result)) process.stdout.write(`${renderTable(table)}\n`);
  process.stdout.write(renderNotes(result.notes));
  say(`figures written to ${path.relative(process.cwd(), file)}`);
  const isPassed =
    result.targets.every(({ met }) => met !== false) && Object.keys(result.failures).length === 0;
  return options.check && !isPassed ? 1 : 0;
}

async function withBox({ topics }, use) {
  if (!topics.some((topic) => TOPICS[topic].hosts > 1)) return await use(undefined);
  const { canUseBox, startBox } = await import('../.dist-test/test/support/box.js');
  const reason = canUseBox();
  if (reason !== undefined) throw new Error(`${reason} (--topics leaves out those with hosts)`);
  const box = await startBox({ hosts: 2 });
  try {
    return await use(box);
  } finally {
    await box.close();
  }
}

function readOptions(argv) {
  const { values } = parseArgs({
    args: argv,
    options: {
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      topics: { type: 'string', default: Object.keys(TOPICS).join(',') },
      json: { type: 'string' },
      check: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  const topics = values.topics.split(',').filter((topic) => topic !== '');
  const strange = topics.filter((topic) => !(topic in TOPICS));
  if (topics.length === 0 || strange.length > 0)
    throw new Error(`--topics: no "${strange.join('", "')}"; there are ${Object.keys(TOPICS).join(', ')}.`);
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 5));
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new Error(`--rounds wants a whole number from 1, not "${values.rounds}".`);
  return { ...values, topics, rounds };
}
