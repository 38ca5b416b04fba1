// Tensors move to the backend that uses them next. The cpu backend may hold a float32 tensor as an Int32Array
// (tf.oneHot(…).toFloat()), whose bits the WASM backend would take for floats; values are converted on arrival.

interface Arrivals {
  move(dataId: object, values: unknown, shape: number[], dtype: string, refCount: number): void;
}

const patched = Symbol.for('horovod.wasmMovedValues');

export function acceptValuesOfOtherBackends(prototype: object): void {
  const backend = prototype as Arrivals & { [patched]?: true };
  if (backend[patched]) return;
  const { move } = backend;
  backend.move = function (dataId, values, shape, dtype, refCount) {
    move.call(this, dataId, converted(values, dtype), shape, dtype, refCount);
  };
  backend[patched] = true;
}

function converted(values: unknown, dtype: string): unknown {
  if (values === null || values === undefined) return values;
  const list = values as ArrayLike<number>;
  if (dtype === 'float32' && !(values instanceof Float32Array)) return Float32Array.from(list);
  if (dtype === 'int32' && !(values instanceof Int32Array)) return Int32Array.from(list);
  if (dtype === 'bool' && !(values instanceof Uint8Array)) return Uint8Array.from(list);
  return values;
}
