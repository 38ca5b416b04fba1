// The runs of each example in `npm test`, short and on two ranks (or `ranks`), and what they must print. An example is a file below examples/
// that calls init(). An example without an entry here fails, so that none is forgotten.

import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { capture, filesBelow, inRepository } from './tools.mjs';

// Only for runs that hang; each should take a few seconds.
const timeoutMs = 120_000;
const accuracy = /test accuracy +\d+\.\d+ %/;
const rate = /Total img\/sec on 2 rank\(s\): \d+\.\d \+-\d+\.\d/;
const wasm = ['--backend', 'wasm'];
const elastic = ['--min-np', '1'];
const quick = ['--num-warmup-batches', '1', '--num-batches-per-iter', '2', '--num-iters', '2', ...wasm];

/** Every script prints its help, on one rank only. */
const help = {
  args: ['--help'],
  shows: [/^(?!.*\[options\].*\[options\]).*examples\/\S+ \[options\].* {2}--\S+ </s],
};

const digits = ['--folder', '{}/digits', '--images', '1000', ...wasm];

/**
 * Path below examples/ → its runs. `flags` are for horovodrun. `{}` in an argument or flag is a temporary folder, in which `finds` is created
 * before the run. With `service`, a data service with these flags runs beside it, whose config is the first argument.
 */
const runs = {
  'core/train-mlp.ts': [
    { args: ['--epochs', '1', '--samples', '6000'], shows: [accuracy, /same weights on all 2 ranks/] },
  ],
  // The data service is a job of its own, which ends when the training job shuts it down.
  'data/mnist-data-service.ts': [
    { service: [], args: ['{}/1.json', ...digits], shows: [accuracy] },
    { service: [], args: ['{}/2.json', '--reuse-dataset', ...digits], shows: [accuracy] },
    {
      service: ['--dispatcher-side', 'training'],
      args: ['{}/3.json', '--reuse-dataset', '--round-robin', ...digits],
      shows: [accuracy],
    },
  ],
  'data/mnist-tfrecord.ts': [
    {
      args: ['--folder', '{}/digits', '--images', '1000', '--epochs', '1', ...wasm],
      shows: [accuracy, /writing .*train/, /waited for data in \d+\.\d %/],
    },
  ],
  'elastic/custom-loop.ts': [
    // Rank 1 kills itself in the middle; horovodrun reports that, and every sample is used all the same.
    {
      flags: elastic,
      args: ['--epochs', '1', '--lose', '20'],
      shows: [/rank 1 .* was killed by SIGKILL/, /6000 samples in 1 epochs, [23] generation/],
    },
  ],
  'elastic/mnist.ts': [
    {
      flags: elastic,
      args: ['--epochs', '1', '--images', '1280', ...wasm],
      shows: [accuracy, /2 rank\(s\), epoch 1, from image 0/],
    },
  ],
  'jax/mnist.ts': [
    { args: ['--epochs', '1', '--steps', '10'], shows: [accuracy, /step #10\s+Loss: \d/] },
    // 3333 images on each rank are no multiple of what it tests at once.
    { ranks: 3, args: ['--epochs', '1', '--steps', '1'], shows: [/test accuracy .* of 9999 images/] },
  ],
  'keras/mnist.ts': [
    { args: ['--epochs', '1', '--steps', '10', ...wasm], shows: [accuracy, /Epoch 1\/1 .*samples\/s/] },
  ],
  'keras/mnist-advanced.ts': [
    {
      args: ['--epochs', '1', '--steps', '5', '--warmup-epochs', '1', '--checkpoints', '{}/run', ...wasm],
      shows: [accuracy, /finished gradual learning rate warmup to 0\.002/],
    },
    {
      // A run that is stopped while it saves epoch 7 leaves a folder without a model.
      finds: 'run/epoch-7',
      args: ['--epochs', '2', '--steps', '5', '--warmup-epochs', '1', '--checkpoints', '{}/run', ...wasm],
      shows: [accuracy, /resuming after epoch 1/],
    },
  ],
  'notebooks/train.ipynb': [
    {
      flags: [
        ...['--notebook-parameter', 'epochs=1', '--notebook-parameter', 'images=1200'],
        ...['--tensorboard-logdir', '{}/logs'],
      ],
      args: [],
      shows: [accuracy, /Epoch 1\/1 .*samples\/s/],
    },
  ],
  'tensorflow/mnist.ts': [
    { args: ['--epochs', '1', '--steps', '10', ...wasm], shows: [accuracy, /step #10\s+Loss: \d/] },
  ],
  'tensorflow/text-classification.ts': [
    { args: ['--epochs', '1', '--save', '{}/model', ...wasm], shows: [accuracy, /epoch 1\/1 +loss 0\.\d/] },
  ],
  'tensorflow/synthetic-benchmark.ts': ['mlp', 'cnn', 'transformer'].map((model) => ({
    args: ['--model', model, '--batch-size', '8', ...quick],
    shows: [rate, /Iter #1: /],
  })),
};

export async function runExamples({ filter }) {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  const words = filter.toLowerCase();
  for (const path of exampleFiles()) {
    if (!path.includes(words)) continue;
    const failure =
      runs[path] === undefined ? 'has no run in scripts/lib/example-runs.mjs' : await runExample(path);
    counts[failure === undefined ? 'passed' : 'failed'] += 1;
    if (failure !== undefined) console.log(`✖ examples/${path} ${failure}`);
  }
  return counts;
}

/** Resolves to undefined or to what went wrong. */
async function runExample(path) {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-example-'));
  try {
    for (const { args, shows, finds = '', flags = [], ranks = 2, service } of [
      ...runs[path],
      ...(path.endsWith('.ts') ? [help] : []),
    ]) {
      mkdirSync(join(folder, finds), { recursive: true });
      const inFolder = (words) => words.map((word) => word.replace('{}', folder));
      const given = inFolder(args);
      const started = [...inFolder(flags), `examples/${path}`, ...given];
      const command = ['bin/horovodrun.js', '-np', String(ranks), ...started];
      const startedAt = performance.now();
      const serving = service === undefined ? undefined : startService(given[0], service);
      const { code, text } = await capture(process.execPath, command, { cwd: inRepository(), timeoutMs });
      const served = await serving;
      if (served !== undefined && served.code !== 0) {
        process.stdout.write(text + served.text);
        return `${args.join(' ')}: exit code ${served.code} of the data service`;
      }
      const missing = shows.find((pattern) => !pattern.test(text));
      if (code === 0 && missing === undefined) {
        const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
        console.log(`✔ examples/${path} ${args.join(' ')} (${seconds} s)`);
        continue;
      }
      process.stdout.write(text);
      return code === 0
        ? `${args.join(' ')}: the output lacks ${missing}`
        : `${args.join(' ')}: exit code ${code}`;
    }
    return undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Resolves when the service has ended. */
function startService(config, flags) {
  const command = ['bin/horovodrun.js', '-np', '2', 'horovod', 'compute-worker', config, ...flags];
  return capture(process.execPath, command, { cwd: inRepository(), timeoutMs });
}

function exampleFiles() {
  const callsInit = (path) => /\binit\(/.test(readFileSync(inRepository(path), 'utf8'));
  const files = filesBelow('examples').filter((path) => /\.(ts|ipynb)$/.test(path) && callsInit(path));
  return files.map((path) => path.replace(/^examples\//, ''));
}
