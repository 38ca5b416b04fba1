// The ElasticSampler of TensorFlow.js: its batches take rows of tensors too, and it feeds fit() and fitDataset().

import * as tf from '@tensorflow/tfjs';
import {
  ElasticSampler as CoreSampler,
  type ElasticSamplerOptions,
  takeFrom,
} from '../../../elastic/sampler.ts';
import { shardTensors, type Tensors } from '../dataset/shard.ts';

/** Deals samples by index, and takes them from tensors. */
export class ElasticSampler extends CoreSampler {
  constructor(options: ElasticSamplerOptions) {
    super(options, { take: takeTensors });
  }

  /**
   * What this rank has left of the epoch, batch after batch, as new tensors of the same structure: for
   * `fit(x, y, { batchSize: sampler.batchSize, shuffle: false })`. The tensors given still belong to the caller.
   */
  tensors<T extends Tensors>(data: T): T {
    const indices = [...this.batches()].flatMap((batch) => [...batch.indices]);
    return rowsOf(data, Int32Array.from(indices));
  }

  /**
   * The batches of this rank for fitDataset(): `element` gives a sample as { xs, ys }, of tensors, numbers or lists, and the samples of a
   * batch are stacked. Each pass over the dataset goes from the sampler's position to the end of its epoch.
   */
  dataset<E extends tf.TensorContainerObject>(
    element: (index: number) => E,
  ): tf.data.Dataset<tf.TensorContainer> {
    const sampler = this;
    return tf.data.generator(function* () {
      for (const batch of sampler.batches()) yield stacked(Array.from(batch.indices, element));
    } as never);
  }
}

function takeTensors(data: unknown, indices: Int32Array): unknown {
  const isTensor = (each: unknown): boolean => each instanceof tf.Tensor;
  const isPlain = typeof data === 'object' && data !== null && Object.values(data).some(isTensor);
  return isTensor(data) || isPlain ? rowsOf(data as Tensors, indices) : takeFrom(data, indices);
}

function rowsOf<T extends Tensors>(data: T, indices: Int32Array): T {
  return shardTensors(data, { order: indices, count: 1, index: 0 });
}

/** One element whose tensors have a first dimension more. Uses up the elements. */
function stacked(elements: readonly tf.TensorContainerObject[]): tf.TensorContainerObject {
  const [first = {}] = elements;
  const made = tf.tidy(() =>
    Object.fromEntries(
      Object.keys(first).map((name) => [name, tf.stack(elements.map((element) => tensorOf(element[name])))]),
    ),
  );
  tf.dispose(elements as unknown as tf.TensorContainer);
  return made;
}

function tensorOf(value: tf.TensorContainer): tf.Tensor {
  return value instanceof tf.Tensor ? value : tf.tensor(value as tf.TensorLike);
}
