// Kernels that are missing or wrong in the WASM backend run on the cpu backend, on copies of the values. This is good enough for
// rare or small operations. Kernels that take much of the training time have a replacement in this folder.

import * as tf from '@tensorflow/tfjs';
import type { Kernel, Replacement } from './kernel.ts';

/** The part of MathBackendCPU that is used here. */
interface CpuBackend {
  write(values: tf.backend_util.BackendValues, shape: readonly number[], dtype: tf.DataType): object;
  readSync(dataId: object): tf.backend_util.BackendValues;
  disposeData(dataId: object, force: boolean): boolean;
}

type Results = tf.TensorInfo | tf.TensorInfo[];

/** The WASM heap cannot hold complex numbers. An error about a missing kernel is better than a wrong result. */
const complexKernels = new Set(['Complex', 'Real', 'Imag', 'ComplexAbs', 'FFT', 'IFFT']);

/** A replacement for each kernel of the cpu backend that the WASM backend lacks, or that is listed in `wrong`. */
export function cpuFallbacks(wrong: readonly string[]): Replacement[] {
  const present = new Set(tf.getKernelsForBackend('wasm').map(({ kernelName }) => kernelName));
  return tf
    .getKernelsForBackend('cpu')
    .filter(({ kernelName }) => !present.has(kernelName) || wrong.includes(kernelName))
    .filter(({ kernelName }) => !complexKernels.has(kernelName))
    .map(({ kernelName }) => ({ kernelName, make: () => onCpu(kernelName) }));
}

/** Runs the cpu backend's kernel of this name on copies of tensors of the WASM backend. */
export function onCpu(kernelName: string): Kernel {
  const kernel = tf.getKernel(kernelName, 'cpu').kernelFunc as unknown as (call: object) => Results;
  return ({ inputs, backend, attrs }) => {
    const cpu = tf.engine().findBackend('cpu') as unknown as CpuBackend;
    const copies: object[] = [];
    const copyIn = (info: unknown): unknown => {
      if (info === undefined || info === null) return info;
      if (Array.isArray(info)) return info.map(copyIn);
      const { dataId, shape, dtype } = info as tf.TensorInfo;
      const copy = cpu.write(backend.readSync(dataId), shape, dtype);
      copies.push(copy);
      return { dataId: copy, shape, dtype };
    };
    const copyOut = ({ dataId, shape, dtype }: tf.TensorInfo): tf.TensorInfo => {
      const values = cpu.readSync(dataId);
      cpu.disposeData(dataId, true);
      return { dataId: backend.write(values, shape, dtype), shape, dtype };
    };
    try {
      // Some kernels take a list as their inputs.
      const copied = Array.isArray(inputs)
        ? copyIn(inputs)
        : Object.fromEntries(Object.entries(inputs).map(([name, info]) => [name, copyIn(info)]));
      const result = kernel({ inputs: copied, backend: cpu, attrs });
      return Array.isArray(result) ? result.map(copyOut) : copyOut(result);
    } finally {
      for (const dataId of copies) cpu.disposeData(dataId, true);
    }
  };
}
