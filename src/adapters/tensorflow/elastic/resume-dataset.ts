// elastic.resume() for tf.data: a dataset of which this rank gets its part, from the position of the state on. Elements that other ranks use
// are disposed. Iterables work as in the core.

import * as tf from '@tensorflow/tfjs';
import {
  checkArguments,
  resume as coreResume,
  dealt,
  type StreamSource,
  type StreamState,
} from '../../../elastic/resume.ts';
import { currentWorld } from '../../../elastic/world.ts';

/**
 * This rank's part of a dataset, for fitDataset() or a loop: see elastic.resume() of `horovod/elastic`. `make` is called for each pass. An
 * element is what one rank takes in one step, so batch before: `elastic.resume(() => dataset.batch(32), state)`. Do not prefetch after it.
 */
export function resume<T extends tf.TensorContainer>(
  make: () => tf.data.Dataset<T>,
  state: StreamState,
): tf.data.Dataset<T>;
export function resume<T>(make: StreamSource<T>, state: StreamState): AsyncIterable<T>;
export function resume<T extends tf.TensorContainer>(
  make: () => tf.data.Dataset<T> | Iterable<T> | AsyncIterable<T>,
  state: StreamState,
): tf.data.Dataset<T> | AsyncIterable<T> {
  checkArguments(make, state);
  const made = make();
  if (!isDataset<T>(made)) {
    // The one that was made serves the first pass.
    let first: Iterable<T> | AsyncIterable<T> | undefined = made;
    return coreResume(() => {
      const stream = first ?? (make as StreamSource<T>)();
      first = undefined;
      return stream;
    }, state);
  }
  const makeDataset = make as () => tf.data.Dataset<T>;
  async function* pass(): AsyncGenerator<T, void, undefined> {
    const iterator = await makeDataset().iterator();
    const parts = { world: currentWorld, discard: (element: T) => void tf.dispose(element) };
    yield* dealt<T>({ next: () => iterator.next() }, state, parts);
  }
  return tf.data.generator(pass as never) as unknown as tf.data.Dataset<T>;
}

function isDataset<T extends tf.TensorContainer>(value: unknown): value is tf.data.Dataset<T> {
  const { iterator, forEachAsync } = (value ?? {}) as Partial<tf.data.Dataset<T>>;
  return typeof iterator === 'function' && typeof forEachAsync === 'function';
}
