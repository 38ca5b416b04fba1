// What the kernels of this folder share: the part of TensorFlow.js' WASM backend they use, how they call other kernels, and
// how they release intermediate results.
//
// Words. A *kernel* computes one operation on one backend; the registry of TensorFlow.js finds it by the names of both. A
// *replacement* is made from the kernel that it replaces (undefined if the backend has none). Kernels take `TensorInfo`s,
// which are not always tensors, because kernels call other kernels with intermediate results.

import * as tf from '@tensorflow/tfjs';

/** The part of BackendWasm that is used here. All of it is declared in its types, but little is documented. */
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
  /** The exports of the WASM binary. */
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

/** A kernel that handles every call itself. */
export function replacement(kernelName: string, kernel: Kernel): Replacement {
  return { kernelName, make: () => kernel };
}

/** A kernel that passes some calls on to the one it replaces. */
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

/** Runs `body` and releases all intermediate results except the one that it returns. */
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

/** A new float32 result filled with zeros; memory from malloc() is not cleared. */
export function makeZeros(backend: WasmBackend, shape: readonly number[]): tf.TensorInfo {
  const output = backend.makeOutput(shape, 'float32');
  backend.typedArrayFromHeap(output).fill(0);
  return output;
}

/** A new float32 result, which `body` computes with scratch memory. It is given both as offsets into the heap, in bytes. */
export function computeWithScratch(
  backend: WasmBackend,
  shape: readonly number[],
  scratchFloats: number,
  body: (output: number, scratch: number) => void,
): tf.TensorInfo {
  const output = backend.makeOutput(shape, 'float32');
  const scratch = backend.makeOutput([scratchFloats], 'float32');
  try {
    const [to, work] = offsets(backend, output, scratch) as [number, number];
    body(to, work);
  } finally {
    backend.disposeData(scratch.dataId);
  }
  return output;
}

/**
 * Views of the values of float32 tensors in the heap. A view becomes invalid when the heap grows, so take all views at once,
 * after all allocations. Asking for the offsets first moves tensors of other backends into this heap.
 */
export function floats<const Infos extends readonly tf.TensorInfo[]>(
  backend: WasmBackend,
  ...infos: Infos
): { [K in keyof Infos]: Float32Array } {
  offsets(backend, ...infos);
  return infos.map((info) => backend.typedArrayFromHeap(info)) as { [K in keyof Infos]: Float32Array };
}

/** Where the values of tensors begin in the heap, in bytes. Values never move within the heap. */
export function offsets(backend: WasmBackend, ...infos: readonly tf.TensorInfo[]): number[] {
  return infos.map(({ dataId }) => backend.getMemoryOffset(dataId) >>> 0);
}

export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((size, extent) => size * extent, 1);
}
