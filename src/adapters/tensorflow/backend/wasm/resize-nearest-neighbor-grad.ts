// ResizeNearestNeighborGrad, the gradient of tf.layers.upSampling2d: each pixel of an image gets the sum of the gradients of the
// pixels that were copied from it. The kernels of this backend and of the cpu backend disagree for more than one image (the cpu
// uses the gradients of the first image for all), and never return for an image of one pixel with aligned corners.

import type * as tf from '@tensorflow/tfjs';
import { floats, makeZeros, type Replacement, replacement } from './kernel.ts';

export const resizeNearestNeighborGrad: Replacement = replacement(
  'ResizeNearestNeighborGrad',
  ({ inputs, backend, attrs }) => {
    const { images, dy } = inputs as { images: tf.TensorInfo; dy: tf.TensorInfo };
    const [batch, height, width, channels] = images.shape as [number, number, number, number];
    const [, outHeight, outWidth] = dy.shape as [number, number, number, number];
    const rows = sources(height, outHeight, Boolean(attrs['alignCorners']));
    const columns = sources(width, outWidth, Boolean(attrs['alignCorners']));
    const output = makeZeros(backend, images.shape);
    const [dx, g] = floats(backend, output, dy);
    let from = 0;
    for (let n = 0; n < batch; n++) {
      for (const row of rows) {
        for (const column of columns) {
          const to = ((n * height + row) * width + column) * channels;
          for (let c = 0; c < channels; c++, from++) {
            dx[to + c] = (dx[to + c] as number) + (g[from] as number);
          }
        }
      }
    }
    return output;
  },
);

/** For each position of the resized axis, the position of the original axis that it was copied from. */
function sources(size: number, outSize: number, alignCorners: boolean): number[] {
  const isAligned = alignCorners && outSize > 1;
  const scale = isAligned ? (size - 1) / (outSize - 1) : size / outSize;
  return Array.from({ length: outSize }, (_, place) =>
    Math.min(size - 1, alignCorners ? Math.round(place * scale) : Math.floor(place * scale)),
  );
}
