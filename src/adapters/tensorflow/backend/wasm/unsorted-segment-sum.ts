// UnsortedSegmentSum, which the backend does not have: sums the rows of x that have the same segment number. It is the gradient
// of gather, and so of every embedding.

import type * as tf from '@tensorflow/tfjs';
import { offsets, type Replacement, replacement, sizeOf } from './kernel.ts';

export const unsortedSegmentSum: Replacement = replacement(
  'UnsortedSegmentSum',
  ({ inputs, backend, attrs }) => {
    const { x, segmentIds } = inputs as { x: tf.TensorInfo; segmentIds: tf.TensorInfo };
    const count = attrs['numSegments'] as number;
    const rowShape = x.shape.slice(segmentIds.shape.length);
    const width = sizeOf(rowShape);
    const output = backend.makeOutput([count, ...rowShape], x.dtype);
    offsets(backend, output, x, segmentIds); // moves all to this backend before the views are taken
    const sums = backend.typedArrayFromHeap(output).fill(0);
    const values = backend.typedArrayFromHeap(x);
    const ids = backend.typedArrayFromHeap(segmentIds);
    for (let row = 0; row < ids.length; row++) {
      const id = ids[row] as number;
      if (id < 0 || id >= count) continue; // dropped, as on the cpu backend
      const [from, to] = [row * width, id * width];
      for (let i = 0; i < width; i++) sums[to + i] = (sums[to + i] as number) + (values[from + i] as number);
    }
    return output;
  },
);
