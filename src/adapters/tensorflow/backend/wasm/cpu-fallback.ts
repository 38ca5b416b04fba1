// Kernels that the WASM backend lacks, or has wrong, run by the cpu backend on copies of the values. Right for what
// is rare or small; what training spends its time in has a replacement of its own in this folder.

import * as tf from '@tensorflow/tfjs';
import type { Kernel, Replacement } from './kernel.ts';

/** What of MathBackendCPU is used here. */
interface CpuBackend {
  write(values: tf.backend_util.BackendValues, shape: readonly number[], dtype: tf.DataType): object;
  readSync(dataId: object): tf.backend_util.BackendValues;
  disposeData(dataId: object, force: boolean): boolean;
}

type Results = tf.TensorInfo | tf.TensorInfo[];

/** The WASM heap has no complex numbers: better the clear error of a missing kernel than a wrong result. */
const complexKernels = new Set(['Complex', 'Real', 'Imag', 'ComplexAbs', 'FFT', 'IFFT']);

/** One replacement for each kernel that the cpu backend has and the WASM backend has not, or has in `wrong`. */
export function cpuFallbacks(wrong: readonly string[]): Replacement[] {
  const present = new Set(tf.getKernelsForBackend('wasm').map(({ kernelName }) => kernelName));
  return tf
    .getKernelsForBackend('cpu')
    .filter(({ kernelName }) => !present.has(kernelName) || wrong.includes(kernelName))
    .filter(({ kernelName }) => !complexKernels.has(kernelName))
    .map(({ kernelName }) => ({ kernelName, make: () => onCpu(kernelName) }));
}

/** The cpu backend's kernel of this name, on copies of what the WASM backend holds. */
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
