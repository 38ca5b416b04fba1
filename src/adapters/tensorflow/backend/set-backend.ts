// setBackend(): chooses what TensorFlow.js computes with, loads it and prepares it for training on many ranks. The packages of
// the backends are optional peers, which are imported only here and only if needed.

import { createRequire } from 'node:module';
import { dirname, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../errors.ts';
import { checkNames, invalid } from '../../../operations/check-options.ts';
import {
  limitTensorFlowThreads,
  processEnvironment,
  quietTensorFlow,
} from '../../../settings/environment.ts';
import { readSettings } from '../../../settings/read-settings.ts';
import { describe } from '../../../tensor/tensor.ts';
import { logOfRankZero } from '../../context.ts';
import { compiledKernels } from './wasm/compiled-kernels.ts';
import { installTrainingKernels } from './wasm/install.ts';
import type { WasmBackend } from './wasm/kernel.ts';
import { removeRethrowingListeners } from './wasm/listeners.ts';
import { acceptValuesOfOtherBackends } from './wasm/moved-values.ts';
import { startThreadedWasm } from './wasm/threads.ts';

export type BackendName = 'auto' | 'tensorflow' | 'wasm' | 'cpu';

export interface BackendOptions {
  /**
   * Threads of this rank's backend. Default: 1, because Horovod uses cores by running more ranks. More than 1 makes sense for
   * a single process, on `wasm` and `tensorflow`.
   */
  threads?: number;
  /**
   * For `auto` and `tensorflow`. True: only @tensorflow/tfjs-node-gpu, and an error if it is not installed. False: only
   * @tensorflow/tfjs-node. Default: the former if it is installed, else the latter.
   */
  gpu?: boolean;
}

const wasmPackage = '@tensorflow/tfjs-backend-wasm';
const cpuPackage = '@tensorflow/tfjs-node';
const gpuPackage = '@tensorflow/tfjs-node-gpu';
const require = createRequire(import.meta.url);
const what = 'setBackend()';

/**
 * Makes TensorFlow.js compute with `name` and returns the backend's name. `auto` takes `tensorflow` (the package
 * @tensorflow/tfjs-node-gpu, else @tensorflow/tfjs-node) where it is installed and loads, else `wasm` (@tensorflow/tfjs-backend-wasm) with Horovod's
 * training kernels, else `cpu` with a warning. May be called before or after init(), and again.
 */
export async function setBackend(name: BackendName = 'auto', options: BackendOptions = {}): Promise<string> {
  const { threads, gpu } = checkedOptions(name, options);
  silenceCpuBanner();
  switch (name) {
    case 'auto':
      return gpu === true ? await useTensorFlow(threads, gpu) : await useBest(threads, gpu);
    case 'tensorflow':
      return await useTensorFlow(threads, gpu);
    case 'wasm':
      return await useWasm(threads);
    case 'cpu':
      return await use('cpu');
    default:
      throw invalid(
        what,
        `"${String(name)}" is not a backend; expected 'auto', 'tensorflow', 'wasm' or 'cpu'`,
      );
  }
}

async function useBest(threads: number | undefined, gpu: boolean | undefined): Promise<string> {
  const failures: string[] = [];
  if (tensorflowPackages(gpu).some(isInstalled)) {
    try {
      return await useTensorFlow(threads, gpu);
    } catch (error) {
      failures.push(firstLine(error));
    }
  }
  if (isInstalled(wasmPackage)) {
    if (failures.length > 0)
      logOfRankZero()?.write('warning', `setBackend('auto') uses wasm: ${failures.join(' ')}`);
    return await useWasm(threads);
  }
  failures.push(
    `Neither ${cpuPackage} nor ${wasmPackage} can be used, and the cpu backend is 25 to 300 times ` +
      `slower: run npm install ${wasmPackage}@${tf.version_core}.`,
  );
  logOfRankZero()?.write('warning', `setBackend('auto') uses cpu: ${failures.join(' ')}`);
  return await use('cpu');
}

/** Both register a backend of the same name, so that only one of them may be loaded: the first that is installed. */
function tensorflowPackages(gpu: boolean | undefined): string[] {
  return gpu === undefined ? [gpuPackage, cpuPackage] : [gpu ? gpuPackage : cpuPackage];
}

async function useTensorFlow(threads: number | undefined, gpu: boolean | undefined): Promise<string> {
  const candidates = tensorflowPackages(gpu);
  const chosen = candidates.find(isInstalled) ?? (candidates.at(-1) as string);
  // The script may have imported one of them itself.
  const isLoaded = tf.findBackendFactory('tensorflow') !== null;
  if (!isLoaded) requireInstalled('tensorflow', chosen);
  const { localSize } = readSettings(processEnvironment());
  // Ranks that share a host share its cores: TensorFlow's default, a thread per core in each, makes all of them slow.
  if (threads !== undefined || localSize > 1) limitTensorFlowThreads(threads ?? 1);
  quietTensorFlow();
  if (!isLoaded) await load('tensorflow', chosen);
  if (tf.findBackendFactory('tensorflow') === null) throw twoCopies('tensorflow', chosen);
  const name = await use('tensorflow');
  checkThatItComputes(chosen);
  // Where its GPU libraries are missing, TensorFlow computes on processors without an error.
  if (!isLoaded) logOfRankZero()?.write('info', `setBackend('${name}') uses ${chosen}`);
  return name;
}

/** tfjs-node 4.22 loads with Node 24 and fails at its first kernel. */
function checkThatItComputes(chosen: string): void {
  try {
    tf.tidy(() => tf.add(tf.tensor1d([1]), 1).dataSync());
  } catch (error) {
    throw unsupported(
      'tensorflow',
      `${chosen} does not work with Node ${process.version} (${firstLine(error)}). ` +
        "Use the version of Node that it was made for, or setBackend('wasm').",
      error,
    );
  }
}

async function useWasm(threads: number | undefined): Promise<string> {
  requireInstalled('wasm', wasmPackage);
  const wasm = (await load('wasm', wasmPackage)) as typeof import('@tensorflow/tfjs-backend-wasm');
  if (tf.findBackendFactory('wasm') === null) throw twoCopies('wasm', wasmPackage);
  acceptValuesOfOtherBackends(wasm.BackendWasm.prototype);
  installTrainingKernels();
  const running = 'wasm' in tf.engine().registry ? wasm.getThreadsCount() : undefined;
  if (running === undefined) {
    if (threads === undefined || threads === 1)
      wasm.setWasmPaths(dirname(require.resolve(wasmPackage)) + sep);
    else await startThreadedWasm(wasm, threads);
  } else if (threads !== undefined && threads !== running) {
    throw invalid(
      `setBackend('wasm', { threads: ${threads} })`,
      `the wasm backend runs already, with ${running} thread(s), and may hold tensors. Set threads in the first call`,
    );
  }
  const name = await use('wasm');
  removeRethrowingListeners();
  const set = compiledKernels(tf.backend() as unknown as WasmBackend)?.set;
  const sets =
    set === undefined
      ? 'none, because it has several threads'
      : set === 'wasm'
        ? 'WebAssembly'
        : `native (${set})`;
  logOfRankZero()?.write('info', `setBackend('wasm'): training kernels: ${sets}`);
  return name;
}

async function use(name: string): Promise<string> {
  if (!(await tf.setBackend(name))) {
    throw unsupported(name, `TensorFlow.js could not start this backend; its reason is printed above.`);
  }
  await tf.ready();
  return tf.getBackend();
}

function isInstalled(packageName: string): boolean {
  try {
    require.resolve(packageName);
    return true;
  } catch {
    return false;
  }
}

function requireInstalled(name: BackendName, packageName: string): void {
  if (isInstalled(packageName)) return;
  throw unsupported(
    name,
    `the package ${packageName} is not installed. Run npm install ${packageName}@${tf.version_core}.`,
  );
}

/** Importing a backend's package registers it with TensorFlow.js. */
async function load(name: BackendName, packageName: string): Promise<unknown> {
  try {
    return await import(pathToFileURL(require.resolve(packageName)).href);
  } catch (cause) {
    throw unsupported(
      name,
      `the package ${packageName} is installed and does not load: ${firstLine(cause)} ` +
        `Try npm rebuild ${packageName}, or another backend.`,
      cause,
    );
  }
}

function twoCopies(name: BackendName, packageName: string): HorovodError {
  return unsupported(
    name,
    `${packageName} belongs to another copy of TensorFlow.js than Horovod (${tf.version_core}). ` +
      `Install the same version of both: npm install @tensorflow/tfjs ${packageName}.`,
  );
}

function unsupported(name: string, reason: string, cause?: unknown): HorovodError {
  return new HorovodError('ERR_HVD_UNSUPPORTED', `setBackend('${name}'): ${reason}`, { cause });
}

function checkedOptions(name: BackendName, options: BackendOptions): BackendOptions {
  checkNames(options, ['threads', 'gpu'], what);
  const { threads, gpu } = options;
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1))
    throw invalid(what, `threads is a whole number above 0, not ${describe(threads)}`);
  if (gpu !== undefined && typeof gpu !== 'boolean')
    throw invalid(what, `gpu is true or false, not ${describe(gpu)}`);
  if (gpu === true && (name === 'wasm' || name === 'cpu'))
    throw invalid(
      what,
      `the backend ${name} does not use a GPU; expected 'auto' or 'tensorflow' with gpu: true`,
    );
  return options;
}

/** On its first use the cpu backend prints an advertisement for tfjs-node, on every rank, unless this flag is off. */
function silenceCpuBanner(): void {
  const cpu = tf.findBackend('cpu') as unknown as { firstUse?: boolean } | null;
  if (cpu?.firstUse) cpu.firstUse = false;
}

function firstLine(error: unknown): string {
  const [line = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
  return line.endsWith('.') ? line : `${line}.`;
}
