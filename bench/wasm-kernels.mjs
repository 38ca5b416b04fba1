// Times the heavy kernels of the wasm backend: as TensorFlow.js ships them (stock), by Horovod's kernels as WebAssembly, and by those of the
// addon (native), with the share of what the processor can do at most. All are called in turn in one process, convolutions each time with
// a filter that the backend has not seen (as after each training step), and the shortest time counts.
//
// `--filter TEXT` selects rows, `--rounds N` is the number of calls (9; at most 3 of slow kernels), `--library PATH` is the build of
// src/tensorflow.ts to measure, `--json FILE` also writes the figures to a file.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import * as tf from '@tensorflow/tfjs';
import '@tensorflow/tfjs-backend-wasm';
import { kernelCases } from './harness/kernel-cases.mjs';
import { renderTable } from './harness/tables.mjs';

const { values: flags } = parseArgs({
  options: {
    filter: { type: 'string', default: '' },
    rounds: { type: 'string', default: '9' },
    library: { type: 'string', default: path.join(import.meta.dirname, '../dist/tensorflow.js') },
    json: { type: 'string' },
  },
});

const kernelsNow = () =>
  new Map(tf.getKernelsForBackend('wasm').map(({ kernelName, kernelFunc }) => [kernelName, kernelFunc]));
const stock = kernelsNow();
const { SGDOptimizer, MomentumOptimizer, AdamOptimizer, RMSPropOptimizer, AdagradOptimizer } = tf;
const optimizers = { SGDOptimizer, MomentumOptimizer, AdamOptimizer, RMSPropOptimizer, AdagradOptimizer };
const stockUpdates = new Map(
  Object.entries(optimizers).map(([name, { prototype }]) => [name, prototype.applyGradients]),
);
const library = path.resolve(flags.library);
const { setBackend } = await import(pathToFileURL(library));
const { compiledKernels, useKernelSet } = await import(
  pathToFileURL(path.join(path.dirname(library), 'adapters/tensorflow/backend/wasm/compiled-kernels.js'))
);
await setBackend('wasm');
const ours = kernelsNow();
const backend = tf.backend();
const native = compiledKernels(backend).set;
const ways = ['stock', 'wasm', ...(native === 'wasm' ? [] : ['native'])];
const peak = measurePeak();

const rows = [];
for (const one of kernelCases(backend)) {
  if (!`${one.label} ${one.kernelName}`.includes(flags.filter)) continue;
  const times = Object.fromEntries(ways.map((way) => [way, []]));
  const prepared = one.prepare();
  if (rows.length === 0) warmUp(one, prepared);
  for (let round = 0; round < Number(flags.rounds); round++) {
    for (const way of ways) {
      if (round >= 3 && times[way][0] > 200) continue;
      if (way !== 'stock') useKernelSet(backend, way === 'native' ? native : 'wasm');
      const body = callOf(one, prepared, way);
      if (body) times[way].push(timeOf(body, prepared.refresh));
    }
  }
  prepared.dispose();
  const best = Object.fromEntries(
    ways.map((way) => [way, times[way].length > 0 ? Math.min(...times[way]) : undefined]),
  );
  rows.push({ label: one.label, kernel: one.kernelName, work: one.work, unit: one.unit, ms: best });
}
const head = ['kernel', 'stock ms', 'WASM ms', `${native} ms`, 'rate', 'of the peak', 'WASM ÷', 'stock ÷'];
const cells = rows.map(({ label, kernel, work, unit, ms }) => {
  const fastest = ms.native ?? ms.wasm;
  const rate = work / fastest / 1e6;
  return [
    `${kernel}: ${label}`,
    ...[ms.stock, ms.wasm, ms.native].map((each) => each?.toFixed(3) ?? '–'),
    `${rate.toFixed(1)} ${unit}`,
    peak ? `${((100 * rate) / peak[unit]).toFixed(0)} %` : '–',
    (ms.wasm / fastest).toFixed(2),
    ms.stock === undefined ? '–' : (ms.stock / fastest).toFixed(2),
  ];
});
const machine = os.cpus()[0].model.trim();
console.log(
  renderTable({ title: `Kernels of the wasm backend on one core: ${machine}, ${native}`, head, rows: cells }),
);
if (peak) console.log(`\nPeak: ${peak['GFLOP/s']} GFLOP/s, ${peak['GB/s']} GB/s from memory.`);
if (flags.json !== undefined)
  writeFileSync(flags.json, JSON.stringify({ machine, native, peak, rows }, null, 2));

function callOf({ kernelName, optimizer, attrs }, { inputs, update }, way) {
  if (optimizer !== undefined) {
    const apply = stockUpdates.get(optimizer);
    return way === 'stock' ? () => update((one, gradients) => apply.call(one, gradients)) : () => update();
  }
  const kernel = (way === 'stock' ? stock : ours).get(kernelName);
  if (kernel === undefined) return undefined;
  return () => {
    const output = kernel({ inputs: inputs(), backend, attrs });
    return () => backend.disposeData(output.dataId);
  };
}

/** V8 compiles a WASM module twice: at once, and well. */
function warmUp(one, prepared) {
  useKernelSet(backend, 'wasm');
  const body = callOf(one, prepared, 'wasm');
  for (const end = performance.now() + 500; performance.now() < end; ) body()?.();
}

/** Milliseconds of processor time, which other programs disturb less than the clock. Short calls are repeated. */
function timeOf(body, refresh) {
  let calls = 0;
  let ms = 0;
  while (ms < 2 && calls < 50) {
    refresh();
    const start = process.cpuUsage();
    const dispose = body();
    const { user, system } = process.cpuUsage(start);
    ms += (user + system) / 1000;
    calls++;
    dispose?.();
  }
  return ms / calls;
}

/** Undefined without a C compiler. */
function measurePeak() {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'compute-limit-'));
  try {
    const program = path.join(folder, 'limit');
    const source = path.join(import.meta.dirname, 'peers/compute-limit.c');
    const made = spawnSync('gcc', ['-O3', '-march=native', source, '-o', program], { encoding: 'utf8' });
    if (made.status !== 0) return undefined;
    const { gflops, gigabytes } = JSON.parse(spawnSync(program, { encoding: 'utf8' }).stdout);
    return { 'GFLOP/s': gflops, 'GB/s': gigabytes };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
