// What the kernels of this folder share: the part of TensorFlow.js' WASM backend they use, how they call other kernels, and
// how they release intermediate results.
//
// Words. A *kernel* computes one operation on one backend; the registry of TensorFlow.js finds it by both names. A
// *replacement* is made from the kernel it replaces (undefined where the backend has none). Kernels are given
// `TensorInfo`s, which need not be tensors: other kernels call them with intermediate results.

import * as tf from '@tensorflow/tfjs';

/** What of BackendWasm is used here; all of it is declared in its types, little of it documented. */
export interface WasmBackend {
  readonly wasm: WasmModule;
  makeOutput(shape: readonly number[], dtype: tf.DataType): tf.TensorInfo;
  typedArrayFromHeap(info: tf.TensorInfo): Float32Array | Int32Array | Uint8Array;
  getMemoryOffset(dataId: object): number;
  readSync(dataId: object): tf.backend_util.BackendValues;
  write(values: tf.backend_util.BackendValues | null, shape: readonly number[], dtype: tf.DataType): object;
  disposeData(dataId: object): boolean;
  incRef(dataId: object): void;
}

export interface WasmModule {
  /** What the module's binary exports. */
  readonly asm?: Readonly<Record<string, unknown>>;
  _malloc(bytes: number): number;
}

export type Attributes = Readonly<Record<string, unknown>>;

export interface KernelCall {
  readonly inputs: Record<string, tf.TensorInfo>;
  readonly attrs: Attributes;
  readonly backend: WasmBackend;
}

export type Kernel = (call: KernelCall) => tf.TensorInfo | tf.TensorInfo[];

export interface Replacement {
  readonly kernelName: string;
  make(original: Kernel | undefined): Kernel;
}

/** A kernel that does all the work. */
export function replacement(kernelName: string, kernel: Kernel): Replacement {
  return { kernelName, make: () => kernel };
}

/** A kernel that leaves some calls to the one it replaces. */
export function wrapper(kernelName: string, make: (original: Kernel) => Kernel): Replacement {
  const missing = () => {
    throw new Error(`the wasm backend has no kernel ${kernelName}`);
  };
  return { kernelName, make: (original) => make(original ?? missing) };
}

/** Calls another kernel of the backend; the result is released when the caller returns. */
export type RunKernel = (
  kernelName: string,
  inputs: Record<string, tf.TensorInfo>,
  attrs?: Attributes,
) => tf.TensorInfo;

/** Runs `body` and releases every intermediate result but the one it returns. */
export function withIntermediates(
  backend: WasmBackend,
  body: (run: RunKernel) => tf.TensorInfo,
): tf.TensorInfo {
  const intermediates = new Set<tf.TensorInfo>();
  try {
    const result = body((kernelName, inputs, attrs = {}) => {
      const kernel = tf.getKernel(kernelName, 'wasm').kernelFunc as unknown as Kernel;
      const output = kernel({ inputs, backend, attrs }) as tf.TensorInfo;
      intermediates.add(output);
      return output;
    });
    intermediates.delete(result);
    return result;
  } finally {
    for (const { dataId } of intermediates) backend.disposeData(dataId);
  }
}

/** A new float32 result filled with zeros: what malloc() returns may hold anything. */
export function makeZeros(backend: WasmBackend, shape: readonly number[]): tf.TensorInfo {
  const output = backend.makeOutput(shape, 'float32');
  backend.typedArrayFromHeap(output).fill(0);
  return output;
}

/**
 * The values of float32 tensors in the heap. Views are invalid when the heap grows, so all are taken at once, after every
 * allocation; asking for the offsets first moves tensors here that are in another backend.
 */
export function floats<const Infos extends readonly tf.TensorInfo[]>(
  backend: WasmBackend,
  ...infos: Infos
): { [K in keyof Infos]: Float32Array } {
  offsets(backend, ...infos);
  return infos.map((info) => backend.typedArrayFromHeap(info)) as { [K in keyof Infos]: Float32Array };
}

/** Where the values of tensors begin in the heap, in bytes. Memory does not move in it. */
export function offsets(backend: WasmBackend, ...infos: readonly tf.TensorInfo[]): number[] {
  return infos.map(({ dataId }) => backend.getMemoryOffset(dataId));
}

export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((size, extent) => size * extent, 1);
}
