// `npm run bench:training`: images per second of training with one process, two ranks and what else there is to compare with,
// interleaved over several rounds; prints Markdown tables and writes the figures as JSON. See README.md beside.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { runCommand } from './harness/command.mjs';
import { preparePeers } from './harness/install.mjs';
import { describeMachine, FOREIGN_LIMIT, loadAverage, sampleIdleness } from './harness/machine.mjs';
import { renderNotes } from './harness/notes.mjs';
import { interleave } from './harness/rounds.mjs';
import { renderTable } from './harness/tables.mjs';
import { planTraining } from './harness/training-jobs.mjs';
import { buildTables, gather, judge, TARGETS } from './harness/training-results.mjs';

const HELP = `npm run bench:training -- [flags]

Measures training of this checkout's build: one process without Horovod, two ranks, two processes apart, one process with two
threads; on wasm (also as it comes), cpu, tfjs-node (npm run setup:tfjs-node) and PyTorch where they are installed. Interleaved.

  --quick             one round, short windows: a look, not a result
  --rounds N          how often everything runs (5; 1 with --quick)
  --models LIST       mlp,cnn (both)
  --backends LIST     wasm,wasm-stock,cpu,tensorflow,torch (all)
  --optimizer NAME    sgd or adam (sgd)
  --no-install        do not install torch where it is missing
  --root DIR          measure the build in another checkout
  --json FILE         where the figures go (bench/results/training-<date>.json)
  --check             exit 1 when a target is missed or a job failed
  --help              this text
`;

const benchFolder = import.meta.dirname;
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
  const root = path.resolve(options.root ?? path.join(benchFolder, '..'));
  if (!existsSync(path.join(root, 'dist/tensorflow.js')))
    throw new Error('dist/ is missing: build first, with "npm install" or "npm run build".');
  const tfjsNode = findTfjsNode(root);
  const torch = options.backends.includes('torch')
    ? await findTorch({ install: options.install, signal })
    : { ready: false, why: 'left out' };
  const jobs = planTraining({ options, root, benchFolder, tfjsNode, torch });

  const before = await sampleIdleness(signal);
  if (!before.idle) say(`warning: the machine is not idle (load ${before.load[0]})`);
  const startedAt = new Date();
  const samples = [];
  const timelines = {};
  const measured = await interleave(jobs, options.rounds, { say, signal }, (job, result, round) => {
    if (result.rate !== undefined) samples.push({ name: job.name, round, rate: result.rate });
    if (result.timeline) timelines[job.name] = result.timeline;
  });

  const result = {
    format: 1,
    kind: 'training',
    command: commandLine(argv),
    startedAt: startedAt.toISOString(),
    seconds: Math.round((Date.now() - startedAt.getTime()) / 1000),
    version: JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')).version,
    options: { rounds: options.rounds, quick: options.quick, optimizer: options.optimizer },
    machine: describeMachine(),
    peers: { 'tfjs-node': tfjsNode, torch: { ready: torch.ready, version: torch.version, why: torch.why } },
    idleness: { before, after: { load: loadAverage() } },
    series: gather(samples),
    batches: Object.fromEntries(jobs.map(({ name, batch }) => [name, batch])),
    timelines,
    ...measured,
  };
  result.targets = TARGETS.map((target) => judge(target, result.series));
  result.notes = notesOf(result);
  const file =
    options.json ??
    path.join(
      benchFolder,
      'results',
      `training-${startedAt.toISOString().slice(0, 16).replace(':', '')}.json`,
    );
  mkdirSync(path.dirname(path.resolve(file)), { recursive: true });
  writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
  for (const table of buildTables(result)) process.stdout.write(`${renderTable(table)}\n`);
  process.stdout.write(renderNotes(result.notes));
  say(`figures written to ${path.relative(process.cwd(), file)}`);
  const isPassed =
    result.targets.every(({ met }) => met !== false) && Object.keys(result.failures).length === 0;
  return options.check && !isPassed ? 1 : 0;
}

function readOptions(argv) {
  const { values } = parseArgs({
    args: argv,
    options: {
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      models: { type: 'string', default: 'mlp,cnn' },
      backends: { type: 'string', default: 'wasm,wasm-stock,cpu,tensorflow,torch' },
      optimizer: { type: 'string', default: 'sgd' },
      'no-install': { type: 'boolean', default: false },
      root: { type: 'string' },
      json: { type: 'string' },
      check: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  const list = (flag, allowed) => {
    const asked = values[flag].split(',').filter((name) => name !== '');
    const wrong = asked.find((name) => !allowed.includes(name));
    if (wrong !== undefined) throw new Error(`--${flag}: ${wrong} is not one of ${allowed.join(', ')}.`);
    return asked;
  };
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 5));
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error(`--rounds: ${values.rounds} is not a count.`);
  const [optimizer] = list('optimizer', ['sgd', 'adam']);
  return {
    ...values,
    rounds,
    optimizer,
    models: list('models', ['mlp', 'cnn']),
    backends: list('backends', ['wasm', 'wasm-stock', 'cpu', 'tensorflow', 'torch']),
    install: !values['no-install'],
  };
}

function findTfjsNode(root) {
  const manifest = path.join(root, 'node_modules/@tensorflow/tfjs-node/package.json');
  if (!existsSync(manifest)) return { ready: false, why: 'not installed: npm run setup:tfjs-node' };
  return { ready: true, version: `tfjs-node ${JSON.parse(readFileSync(manifest, 'utf8')).version}` };
}

/** The torch that bench:collectives uses for Gloo; with Horovod for Python where that is there too. */
async function findTorch({ install, signal }) {
  const { gloo } = await preparePeers({ peers: ['gloo'], install, benchFolder, say, signal });
  if (!gloo.ready) return gloo;
  const horovod = await runCommand(gloo.python, ['-c', 'import horovod.torch'], { signal });
  return { ...gloo, hasHorovod: horovod.failure === undefined };
}

function notesOf({ peers, failures, runs, idleness, options }) {
  const sentences = Object.entries(peers)
    .filter(([, { ready }]) => !ready)
    .map(([name, { why }]) => `${name}: ${why}.`);
  for (const [job, { why }] of Object.entries(failures)) sentences.push(`${job}: failed: ${why}.`);
  const disturbed = runs.filter(({ foreign, steal }) => Math.max(foreign, steal) > FOREIGN_LIMIT).length;
  if (disturbed > 0 || !idleness.before.idle)
    sentences.push(
      `The machine was not idle: something else ran during ${disturbed} of ${runs.length} runs.`,
    );
  if (options.quick || options.rounds < 5) sentences.push(`Rounds: ${options.rounds}. A look, not a result.`);
  return sentences;
}

function commandLine(argv) {
  const flags = argv
    .join(' ')
    .replace(/--(json|root)[ =]\S+ ?/g, '')
    .trim();
  return flags === '' ? 'npm run bench:training' : `npm run bench:training -- ${flags}`;
}
