// Identity (tf.clone()) and Cast. The backend's kernels copy the values even if nothing changes. Tensors are immutable, so
// another reference to the same values is enough, as on the cpu backend. The backend's cast to bool is also wrong: it keeps
// the number instead of testing for zero (0.5 becomes false, −1 becomes 255).

import type * as tf from '@tensorflow/tfjs';
import { offsets, type Replacement, replacement, type WasmBackend, wrapper } from './kernel.ts';

export const identity: Replacement = replacement('Identity', ({ inputs, backend }) =>
  share(backend, inputs['x'] as tf.TensorInfo),
);

export const cast: Replacement = wrapper('Cast', (original) => (call) => {
  const { inputs, backend, attrs } = call;
  const x = inputs['x'] as tf.TensorInfo;
  if (x.dtype === attrs['dtype']) return share(backend, x);
  if (attrs['dtype'] !== 'bool' || (x.dtype !== 'float32' && x.dtype !== 'int32')) return original(call);
  const output = backend.makeOutput(x.shape, 'bool');
  offsets(backend, output, x); // moves both to this backend before the views are taken
  const [to, from] = [backend.typedArrayFromHeap(output), backend.typedArrayFromHeap(x)];
  for (let i = 0; i < from.length; i++) to[i] = from[i] === 0 ? 0 : 1;
  return output;
});

function share(backend: WasmBackend, { dataId, shape, dtype }: tf.TensorInfo): tf.TensorInfo {
  backend.incRef(dataId);
  return { dataId, shape, dtype };
}
