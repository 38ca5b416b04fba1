// TensorFlow.js moves tensors to the backend that uses them next. The cpu backend may hold a float32 tensor as an Int32Array,
// because its cast from int32 or bool (tf.oneHot(…).toFloat()) changes only the dtype and keeps the array. The WASM backend
// would read the bits of these integers as floats. So we replace the cpu backend's cast by one that makes floats, and convert
// values whose array does not match their dtype when they move. Tensors that were cast before setBackend() stay wrong.

import * as tf from '@tensorflow/tfjs';

interface Arrivals {
  move(dataId: object, values: unknown, shape: number[], dtype: string, refCount: number): void;
}

interface CpuBackend {
  readSync(dataId: object): ArrayLike<number>;
  disposeData(dataId: object): boolean;
  makeTensorInfo(shape: number[], dtype: tf.DataType, values: Float32Array): tf.TensorInfo;
}

const patched = Symbol.for('horovod.wasmMovedValues');

/** `prototype` is the prototype of BackendWasm. */
export function acceptValuesOfOtherBackends(prototype: object): void {
  const backend = prototype as Arrivals & { [patched]?: true };
  if (backend[patched]) return;
  const { move } = backend;
  backend.move = function (dataId, values, shape, dtype, refCount) {
    move.call(this, dataId, converted(values, dtype), shape, dtype, refCount);
  };
  castOnCpuMakesFloats();
  backend[patched] = true;
}

function castOnCpuMakesFloats(): void {
  const original = tf.getKernel('Cast', 'cpu');
  tf.unregisterKernel('Cast', 'cpu');
  tf.registerKernel({
    ...original,
    kernelFunc: (call) => {
      const { x } = call.inputs as { x: tf.TensorInfo };
      const result = original.kernelFunc(call) as tf.TensorInfo;
      if (result.dtype !== 'float32' || x.dtype === 'float32' || result.dataId !== x.dataId) return result;
      const cpu = call.backend as CpuBackend;
      const floats = Float32Array.from(cpu.readSync(x.dataId));
      cpu.disposeData(result.dataId); // one reference less, because the result has its own values now
      return cpu.makeTensorInfo(result.shape, 'float32', floats);
    },
  });
}

function converted(values: unknown, dtype: string): unknown {
  if (values === null || values === undefined) return values;
  const list = values as ArrayLike<number>;
  if (dtype === 'float32' && !(values instanceof Float32Array)) return Float32Array.from(list);
  if (dtype === 'int32' && !(values instanceof Int32Array)) return Int32Array.from(list);
  if (dtype === 'bool' && !(values instanceof Uint8Array)) return Uint8Array.from(list);
  return values;
}
