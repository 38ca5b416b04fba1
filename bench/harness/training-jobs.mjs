// The jobs of `npm run bench:training`. A *case* is a model on a backend; a *way* is how it is trained: `alone` (one process
// without Horovod), `ranks` (two under horovodrun), `apart` (two processes at once that know nothing of each other, which
// is the machine's limit), `threads` (one process, two threads). Every figure is images per second of all processes together.
import path from 'node:path';
import { explainFailure, jsonLines, runCommand } from './command.mjs';
import { cleanEnvironment } from './jobs.mjs';

/**
 * How long to train: steps a window are meant to take about a second. The warm-up is long where steps are short: V8 compiles TensorFlow.js
 * for thousands of steps, on threads that one process has a core for and two ranks have not.
 */
const LENGTHS = {
  'mlp wasm': { warmup: 3500, steps: 200, windows: 5 },
  'mlp wasm-module': { warmup: 1200, steps: 60, windows: 5 },
  'mlp wasm-stock': { warmup: 3, steps: 8, windows: 3 },
  'mlp cpu': { warmup: 1, steps: 2, windows: 3 },
  'mlp tensorflow': { warmup: 3500, steps: 150, windows: 5 },
  'cnn wasm': { warmup: 60, steps: 12, windows: 5 },
  'cnn wasm-module': { warmup: 40, steps: 6, windows: 5 },
  // Two minutes for a batch of 64; images per second hardly depend on the batch here.
  'cnn cpu': { warmup: 0, steps: 1, windows: 1, batch: 2 },
  'cnn tensorflow': { warmup: 100, steps: 12, windows: 5 },
  'mlp torch': { warmup: 100, steps: 100, windows: 5 },
  'cnn torch': { warmup: 8, steps: 10, windows: 5 },
};

/** Processes that must measure at the same time begin this long after their start. */
const TOGETHER_AFTER_MS = 32_000;

export const WAYS = { alone: 1, ranks: 2, apart: 2, threads: 1, ddp: 2, horovod: 2 };

/** @param setup `{ options, root, benchFolder, tfjsNode, torch }`; the last two as from prepareBackends. */
export function planTraining(setup) {
  const jobs = [];
  for (const model of setup.options.models) {
    for (const backend of setup.options.backends) {
      for (const way of waysOf(model, backend, setup)) jobs.push(trainingJob(setup, model, backend, way));
    }
  }
  return jobs;
}

function waysOf(model, backend, { options, tfjsNode, torch }) {
  switch (backend) {
    case 'wasm':
      return ['alone', 'ranks', 'apart', 'threads'];
    case 'tensorflow':
      return tfjsNode.ready ? ['alone', 'ranks', 'apart', 'threads'] : [];
    case 'torch':
      return torch.ready ? ['alone', 'ddp', ...(torch.hasHorovod ? ['horovod'] : [])] : [];
    case 'wasm-module':
      return ['alone'];
    case 'wasm-stock':
      return model === 'mlp' ? ['alone'] : []; // it has no gradient of a convolution
    case 'cpu':
      return model === 'mlp' || !options.quick ? ['alone'] : [];
    default:
      throw new Error(`no such backend: ${backend}`);
  }
}

function trainingJob(setup, model, backend, way) {
  const { options } = setup;
  const length = { batch: 64, ...LENGTHS[`${model} ${backend}`] };
  if (options.quick)
    Object.assign(length, {
      windows: 1,
      steps: Math.ceil(length.steps / 5),
      warmup: Math.ceil(length.warmup / 10),
    });
  const flags = Object.entries({ model, optimizer: options.optimizer, ...length }).flatMap(
    ([name, value]) => [`--${name}`, String(value)],
  );
  const run = async (signal) => {
    const commands =
      backend === 'torch' ? torchCommands(setup, way, flags) : ourCommands(setup, backend, way, flags);
    const results = await Promise.all(
      commands.map(({ command, args, env }) =>
        runCommand(command, args, { env, signal, deadlineMs: 600_000 }),
      ),
    );
    return readResults(results, way);
  };
  const name = `${model} ${backend} ${way}`;
  return {
    name,
    topic: model,
    series: [name],
    model,
    backend,
    way,
    batch: length.batch,
    once: backend === 'cpu',
    run,
  };
}

function ourCommands({ root, benchFolder }, backend, way, flags) {
  const env = cleanEnvironment({ TF_CPP_MIN_LOG_LEVEL: '2', TF_NUM_INTEROP_THREADS: '1' });
  const isModule = backend === 'wasm-module';
  if (isModule) env['HOROVOD_NATIVE_KERNELS'] = '0';
  const script = path.join(benchFolder, 'ranks', 'training.mjs');
  const library = path.join(root, 'dist/tensorflow.js');
  const args = [script, ...flags, '--backend', isModule ? 'wasm' : backend, '--library', library];
  const command = process.execPath;
  switch (way) {
    case 'alone':
      return [{ command, args, env }];
    case 'threads':
      return [{ command, args: [...args, '--threads', '2'], env }];
    case 'apart': {
      const at = ['--at', String(Date.now() + TOGETHER_AFTER_MS)];
      return [1, 2].map(() => ({ command, args: [...args, ...at], env }));
    }
    case 'ranks': {
      const launcher = [path.join(root, 'bin', 'horovodrun.js'), '-np', '2', '--no-prefix-output'];
      return [{ command, args: [...launcher, ...args, '--horovod', '--timeline'], env }];
    }
    default:
      throw new Error(`no such way: ${way}`);
  }
}

function torchCommands({ benchFolder, torch }, way, flags) {
  const env = cleanEnvironment({ OMP_NUM_THREADS: '1' });
  const args = [path.join(benchFolder, 'peers', 'torch-training.py'), ...flags, '--way', way];
  if (way !== 'horovod') return [{ command: torch.python, args, env }];
  const launch = ['-m', 'horovod.runner.launch', '-np', '2', torch.python];
  return [{ command: torch.python, args: [...launch, ...args], env }];
}

/** Ranks go in step, so that one speaks for both; processes apart are added up. */
export function readResults(results, way) {
  const lines = results.flatMap(({ stdout }) => jsonLines(stdout));
  const rates = lines.filter(({ rate }) => typeof rate === 'number').map(({ rate }) => rate);
  const expected = results.length;
  const failure =
    results.map(explainFailure).find((why) => why !== undefined) ??
    (rates.length === expected ? undefined : `${rates.length} of ${expected} figures were printed`);
  const sum = rates.reduce((total, rate) => total + rate, 0);
  const rate = failure === undefined ? (sum * WAYS[way]) / expected : undefined;
  const steadiness = lines.find((line) => line.steadiness)?.steadiness;
  return { rate, timeline: lines.find((line) => line.timeline)?.timeline, steadiness, failure };
}
