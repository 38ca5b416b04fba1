// Identity, which is tf.clone(): the backend's own copies the values. Tensors do not change, so one more reference to
// the same values does, as on the cpu backend.

import type * as tf from '@tensorflow/tfjs';
import type { Replacement } from './kernel.ts';

export const identity: Replacement = {
  kernelName: 'Identity',
  make:
    () =>
    ({ inputs, backend }) => {
      const { dataId, shape, dtype } = inputs['x'] as tf.TensorInfo;
      backend.incRef(dataId);
      return { dataId, shape, dtype };
    },
};
