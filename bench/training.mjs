// `npm run bench:training`: images per second of training with one process, two ranks and what else there is to compare with,
// interleaved over several rounds; prints Markdown tables and writes the figures as JSON. See README.md beside.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { runCommand } from './harness/command.mjs';
import { preparePeers } from './harness/install.mjs';
import { describePeers, runBench } from './harness/main.mjs';
import { benchOptions } from './harness/options.mjs';
import { interleave } from './harness/rounds.mjs';
import { planTraining } from './harness/training-jobs.mjs';
import { buildTables, gather, judge, TARGETS, trainingNotes } from './harness/training-results.mjs';

await runBench({
  name: 'training',
  options: benchOptions({
    name: 'training',
    about: `Measures training of this checkout's build: one process without Horovod, two ranks, two processes apart, one process with two
threads; on wasm (Horovod's kernels of the addon, as WebAssembly, and stock), cpu, tfjs-node (npm run setup:tfjs-node) and PyTorch if they are installed. Interleaved.`,
    rounds: 5,
    quick: { rounds: 1, about: 'short windows' },
    lists: {
      models: { values: ['mlp', 'cnn'] },
      backends: { values: ['wasm', 'wasm-module', 'wasm-stock', 'cpu', 'tensorflow', 'torch'] },
      optimizer: { values: ['sgd', 'adam'], isSingle: true },
    },
    canInstall: true,
    hasRoot: true,
  }),
  needs: ['dist/tensorflow.js'],
  kept: ['rounds', 'quick', 'optimizer'],
  prepare: async (tools) => ({ tfjsNode: findTfjsNode(tools.root), torch: await findTorch(tools) }),
  measure,
  judge: ({ series }) => TARGETS.map((target) => judge(target, series)),
  tables: buildTables,
  notes: trainingNotes,
});

async function measure({ say, signal, ...setup }) {
  const jobs = planTraining(setup);
  const samples = [];
  const timelines = {};
  const steadiness = {};
  const measured = await interleave(jobs, setup.options.rounds, { say, signal }, (job, result, round) => {
    if (result.rate !== undefined) samples.push({ name: job.name, round, rate: result.rate });
    if (result.timeline) timelines[job.name] = result.timeline;
    if (result.steadiness) steadiness[job.name] = result.steadiness;
  });
  return {
    peers: describePeers({ 'tfjs-node': setup.tfjsNode, torch: setup.torch }),
    series: gather(samples),
    batches: Object.fromEntries(jobs.map(({ name, batch }) => [name, batch])),
    timelines,
    steadiness,
    ...measured,
  };
}

function findTfjsNode(root) {
  const manifest = path.join(root, 'node_modules/@tensorflow/tfjs-node/package.json');
  if (!existsSync(manifest)) return { ready: false, why: 'not installed: npm run setup:tfjs-node' };
  return { ready: true, version: `tfjs-node ${JSON.parse(readFileSync(manifest, 'utf8')).version}` };
}

/** The torch that bench:collectives uses for Gloo, with Python Horovod if that is installed too. */
async function findTorch({ options, benchFolder, say, signal }) {
  if (!options.backends.includes('torch')) return { ready: false, why: 'left out' };
  const { gloo } = await preparePeers({
    peers: ['gloo'],
    install: options.install,
    benchFolder,
    say,
    signal,
  });
  if (!gloo.ready) return gloo;
  const horovod = await runCommand(gloo.python, ['-c', 'import horovod.torch'], { signal });
  return { ...gloo, hasHorovod: horovod.failure === undefined };
}
