// The WASM backend with more than one thread. TensorFlow.js offers it in browsers only, but the package contains the build. In
// Node it fails because it starts workers from a blob; here they are started from a file.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import { dirname, join } from 'node:path';
import * as tf from '@tensorflow/tfjs';

/** The exports of the package that are used here. */
interface WasmPackage {
  BackendWasm: new (module: never) => object;
  setThreadsCount(count: number): void;
}

interface ThreadedModule {
  cwrap(name: string, result: string | null, parameters: string[]): unknown;
  tfjs?: Record<string, unknown>;
  PThread?: { runningWorkers?: { unref(): void }[] };
}

type ThreadedFactory = (options: object) => Promise<ThreadedModule>;

const require = createRequire(import.meta.url);

/** Registers a `wasm` backend with `threads` threads in place of the one that the package registers. */
export async function startThreadedWasm(wasm: WasmPackage, threads: number): Promise<void> {
  const folder = join(dirname(require.resolve('@tensorflow/tfjs-backend-wasm/package.json')), 'wasm-out');
  const build = join(folder, 'tfjs-backend-wasm-threaded-simd');
  const factory = require(`${build}.js`) as ThreadedFactory;
  const { wasmWorkerContents } = require(`${build}.worker.js`) as { wasmWorkerContents: string };
  const temporary = mkdtempSync(join(os.tmpdir(), 'horovod-wasm-'));
  try {
    const worker = join(temporary, 'worker.cjs');
    writeFileSync(worker, wasmWorkerContents.replaceAll('\n', '\\n'));
    const module = await withCores(2 * threads, () =>
      factory({
        locateFile: (file: string) => (file.endsWith('.worker.js') ? worker : join(folder, file)),
        mainScriptUrlOrBlob: `${build}.js`,
      }),
    );
    const wrap = (name: string, result: 'number' | null, ...parameters: 'number'[]): unknown =>
      module.cwrap(name, result, parameters);
    module.tfjs = {
      init: wrap('init', null),
      initWithThreadsCount: wrap('init_with_threads_count', null, 'number'),
      getThreadsCount: wrap('get_threads_count', 'number'),
      registerTensor: wrap('register_tensor', null, 'number', 'number', 'number'),
      disposeData: wrap('dispose_data', null, 'number'),
      dispose: wrap('dispose', null),
    };
    wasm.setThreadsCount(threads);
    const backend = await withCores(2 * threads, async () => new wasm.BackendWasm(module as never));
    // Idle workers must not keep a finished process alive.
    for (const worker of module.PThread?.runningWorkers ?? []) worker.unref();
    tf.removeBackend('wasm');
    tf.registerBackend('wasm', () => backend as tf.KernelBackend, 2);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/** The pool uses at most half of the cores that it sees. Makes it see `cores` cores. */
async function withCores<T>(cores: number, body: () => Promise<T>): Promise<T> {
  const node = require('node:os') as { cpus: () => unknown[] };
  const { cpus } = node;
  try {
    node.cpus = () => new Array(cores);
    return await body();
  } finally {
    node.cpus = cpus;
  }
}
