// `npm run bench:cluster`: our allreduce between hosts against Open MPI over TCP, Gloo and the limit of the wire, interleaved, on
// hosts in a box; prints Markdown tables and writes the figures as JSON. See README.md beside.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { clearEnvironment, planClusterJobs, TOPICS } from './harness/cluster-jobs.mjs';
import { addLines, buildClusterTables, clusterNotes, judgeCluster } from './harness/cluster-results.mjs';
import { explainFailure, runCommand } from './harness/command.mjs';
import { preparePeers } from './harness/install.mjs';
import { describeMachine, loadAverage, sampleIdleness } from './harness/machine.mjs';
import { renderNotes } from './harness/notes.mjs';
import { runRounds } from './harness/rounds.mjs';
import { renderTable } from './harness/tables.mjs';

const HELP = `npm run bench:cluster -- [flags]

Measures allreduce of this checkout's build between hosts in a box (root on Linux), against Open MPI over TCP, Gloo (torch) and raw
TCP, interleaved; prints a table per topic and writes the figures as JSON. Progress goes to stderr, tables to stdout.

  --quick             few sizes, one round: a look, not a result
  --rounds N          how often every job runs (3; 1 with --quick)
  --topics LIST       ${Object.keys(TOPICS).join(',')} (all)
  --no-install        do not install missing peers; name them as missing
  --json FILE         where the figures go (bench/results/cluster-<date>.json)
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
  const { canUseBox, startBox } = await import('../.dist-test/test/support/box.js');
  const reason = canUseBox();
  if (reason !== undefined) throw new Error(reason);
  const machine = describeMachine();
  const peers = await preparePeers({
    peers: ['openmpi', 'gloo'],
    install: options.install,
    benchFolder,
    say,
    signal,
  });
  peers.wire = await prepareWire(signal);
  const before = await sampleIdleness(signal);
  if (!before.idle) say(`warning: the machine is not idle (load ${before.load[0]})`);

  const startedAt = new Date();
  const measured = await onBox(startBox, options, async (box) => {
    const setup = { box, root, benchFolder, peers, cores: machine.cores, ours: hasSeries, ...options };
    return await runRounds(planClusterJobs(setup), options.rounds, { say, signal });
  });
  const result = {
    format: 1,
    kind: 'cluster',
    command: `npm run bench:cluster${argv.length === 0 ? '' : ` -- ${argv.join(' ')}`}`,
    startedAt: startedAt.toISOString(),
    seconds: Math.round((Date.now() - startedAt.getTime()) / 1000),
    version: JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')).version,
    options: { rounds: options.rounds, quick: options.quick, topics: options.topics },
    machine,
    peers: Object.fromEntries(
      Object.entries(peers).map(([name, { ready, version, why }]) => [name, { ready, version, why }]),
    ),
    idleness: { before, after: { load: loadAverage() } },
    ...measured,
  };
  addLines(result.series);
  result.targets = judgeCluster(result.series);
  result.notes = clusterNotes(result);
  const date = startedAt.toISOString().slice(0, 16).replace(':', '');
  const file = options.json ?? path.join(benchFolder, 'results', `cluster-${date}.json`);
  mkdirSync(path.dirname(path.resolve(file)), { recursive: true });
  writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
  for (const table of buildClusterTables(result)) process.stdout.write(`${renderTable(table)}\n`);
  process.stdout.write(renderNotes(result.notes));
  say(`figures written to ${path.relative(process.cwd(), file)}`);
  const isPassed =
    result.targets.every(({ met }) => met !== false) && Object.keys(result.failures).length === 0;
  return options.check && !isPassed ? 1 : 0;
}

async function onBox(startBox, { topics }, use) {
  const hosts = Math.max(...topics.map((topic) => TOPICS[topic].hosts));
  const box = await startBox({ hosts });
  try {
    return await use(box);
  } finally {
    await box.close();
  }
}

/** The transports that are there; tcp without the addon would be measured as portable. */
function hasSeries(series) {
  const addon = { mpi: 'horovod-mpi', 'gloo-transport': 'horovod-gloo' }[series] ?? 'horovod.node';
  const built = path.join(root, 'native/build');
  return series === 'portable' || readdirSync(built).some((name) => name.startsWith(addon));
}

async function prepareWire(signal) {
  const program = path.join(benchFolder, 'build', 'net-limit');
  const source = path.join(benchFolder, 'peers', 'net-limit.c');
  const built = await runCommand('gcc', ['-O2', source, '-o', program], { signal });
  if (built.failure) return { ready: false, why: `gcc: ${explainFailure(built)}` };
  return { ready: true, version: 'peers/net-limit.c', program };
}

function readOptions(argv) {
  const { values } = parseArgs({
    args: argv,
    options: {
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      topics: { type: 'string', default: Object.keys(TOPICS).join(',') },
      'no-install': { type: 'boolean', default: false },
      json: { type: 'string' },
      check: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  const topics = values.topics.split(',').filter((topic) => topic !== '');
  const strange = topics.filter((topic) => !(topic in TOPICS));
  if (topics.length === 0 || strange.length > 0)
    throw new Error(`--topics: no "${strange.join('", "')}"; there are ${Object.keys(TOPICS).join(', ')}.`);
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new Error(`--rounds wants a whole number from 1, not "${values.rounds}".`);
  return { ...values, topics, rounds, install: !values['no-install'] };
}
