// tensors(): a dataset of `horovod/data` as one of tf.data, for fitDataset() and for loops of your own. A batch counts as taken
// when it leaves here.

import * as tf from '@tensorflow/tfjs';
import { Dataset } from '../../../data/dataset.ts';
import type { DataState } from '../../../data/order/state.ts';
import { becomeResumable, resumableOf } from '../../../data/resumable.ts';
import { invalid } from '../../../operations/check-options.ts';
import { describe } from '../../../tensor/tensor.ts';
import { copiedColumns, type Materialised, materialise } from './materialise.ts';

/** What tensors() returns: a tf.data.Dataset that knows its place, as the dataset it was made of does. */
export type TensorDataset<T extends tf.TensorContainer> = tf.data.Dataset<T> & {
  state(): Promise<DataState>;
  restore(state: DataState): void;
};

/**
 * The batches of a dataset as tensors of TensorFlow.js, which belong to whoever takes them. Call prefetch() before, not behind it:
 * batches that tf.data takes ahead would count as used.
 */
export function tensors<T>(dataset: Dataset<T>): TensorDataset<Materialised<T> & tf.TensorContainer> {
  if (!(dataset instanceof Dataset)) {
    throw invalid('tensors()', `expected a dataset of horovod/data, not ${describe(dataset)}`);
  }
  async function* batches(): AsyncGenerator<tf.TensorContainer> {
    const iterator = dataset.iterator();
    try {
      for await (const batch of iterator) {
        const made = materialise(batch);
        iterator.release(copiedColumns(batch) as typeof batch);
        yield made;
      }
    } finally {
      await iterator.return();
    }
  }
  // tf.data.generator() takes async generators, though its declaration does not say so.
  const made = tf.data.generator((() => batches()) as never) as tf.data.Dataset<tf.TensorContainer>;
  // Files are counted when they are first opened.
  Object.defineProperty(made, 'size', { get: () => dataset.size, configurable: true });
  const place = resumableOf(dataset);
  if (place !== undefined) becomeResumable(made, place);
  return Object.assign(made, {
    state: () => dataset.state(),
    restore: (state: DataState) => dataset.restore(state),
  }) as unknown as TensorDataset<Materialised<T> & tf.TensorContainer>;
}
