// Divides data among ranks: tf.data datasets, lists and typed arrays, tensors for model.fit(), or plain indices. The
// rules are in uneven.ts. Shuffle first, with a seed common to all ranks, then shard: otherwise ranks deal from
// different decks and some samples are seen twice, others never.

import * as tf from '@tensorflow/tfjs';
import type { TypedArray } from '../../../tensor/dtype.ts';
import { describe } from '../../../tensor/tensor.ts';
import { invalid } from '../../check-options.ts';
import { checkedShard, placesOf, type Shard, type ShardOptions } from './uneven.ts';

/** This rank's part of a dataset. Tensors of elements that go to other ranks are disposed of. */
export function shard<T extends tf.TensorContainer>(
  data: tf.data.Dataset<T>,
  options?: ShardOptions,
): tf.data.Dataset<T>;
/** This rank's part of a typed array or list. */
export function shard<A extends TypedArray>(data: A, options?: ShardOptions): A;
export function shard<T>(data: readonly T[], options?: ShardOptions): T[];
export function shard(data: unknown, options: ShardOptions = {}): unknown {
  const what = 'shard()';
  const given = checkedShard(options, what);
  if (isDataset(data)) return shardDataset(data, given);
  if (Array.isArray(data)) return Array.from(placesOf(data.length, given), (place) => data[place]);
  if (ArrayBuffer.isView(data) && 'length' in data) {
    const places = placesOf((data as TypedArray).length, given);
    const part = (data as Float32Array).slice(0, places.length);
    for (const [place, from] of places.entries()) part[place] = (data as Float32Array)[from] as number;
    return part;
  }
  throw invalid(
    what,
    `expected a tf.data.Dataset, a list or a typed array, not ${describe(data)}. Use shardTensors() for tensors`,
  );
}

/** This rank's part of an order of samples: of shuffledIndices(), or of 0 … length − 1. */
export function shardIndices(order: number | ArrayLike<number>, options: ShardOptions = {}): Int32Array {
  const what = 'shardIndices()';
  const given = checkedShard(options, what);
  if (typeof order === 'number' && Number.isSafeInteger(order) && order >= 0) return placesOf(order, given);
  if (typeof order === 'object' && order !== null && Number.isSafeInteger(order.length)) {
    checkOrder(order, what);
    return placesOf(order.length, given).map((place) => order[place] as number);
  }
  throw invalid(what, `expected a number of samples or a list of their places, not ${describe(order)}`);
}

/** All of it, not only this rank's part: an error on one rank alone would leave the others waiting. */
function checkOrder(order: ArrayLike<number>, what: string, samples = 2 ** 31): void {
  for (let i = 0; i < order.length; i += 1) {
    const place: unknown = order[i];
    if (typeof place === 'number' && Number.isInteger(place) && place >= 0 && place < samples) continue;
    throw invalid(
      what,
      `the order contains ${describe(place)}; places are whole numbers from 0 to ${samples - 1}`,
    );
  }
}

/** A tensor, or tensors in a list or record, all with samples along their first dimension. */
export type Tensors = tf.Tensor | readonly tf.Tensor[] | { readonly [name: string]: tf.Tensor };

export interface ShardTensorsOptions extends ShardOptions {
  /** The order of all samples, the same on all ranks: shuffledIndices(). Otherwise as they come. */
  order?: ArrayLike<number> | undefined;
}

/**
 * This rank's part of the samples, as new tensors of the same structure, for model.fit(). The tensors given still belong to
 * the caller.
 */
export function shardTensors<T extends Tensors>(tensors: T, options: ShardTensorsOptions = {}): T {
  const what = 'shardTensors()';
  const { order, ...rest } = Object(options) as ShardTensorsOptions;
  const list = tensors instanceof tf.Tensor ? [tensors] : (Object.values(Object(tensors)) as tf.Tensor[]);
  const samples = list[0]?.shape?.[0];
  if (list.length === 0) throw invalid(what, `expected tensors, not ${describe(tensors)}`);
  for (const tensor of list) {
    if (tensor instanceof tf.Tensor && tensor.rank > 0 && tensor.shape[0] === samples) continue;
    const found = tensor instanceof tf.Tensor ? `of shape [${tensor.shape}]` : describe(tensor);
    throw invalid(
      what,
      `all must be tensors with as many samples along the first dimension as the first (${samples ?? 'none'}); one is ${found}`,
    );
  }
  if (order !== undefined) checkOrder(Object(order), what, samples);
  const places = shardIndices(order ?? samples ?? 0, rest);
  const taken = tf.tidy(() => {
    const at = tf.tensor1d(places, 'int32');
    return list.map((tensor) => tf.gather(tensor, at));
  });
  if (tensors instanceof tf.Tensor) return taken[0] as unknown as T;
  if (Array.isArray(tensors)) return taken as unknown as T;
  return Object.fromEntries(Object.keys(tensors).map((name, place) => [name, taken[place]])) as unknown as T;
}

function isDataset(data: unknown): data is tf.data.Dataset<tf.TensorContainer> {
  return typeof data === 'object' && data !== null && 'iterator' in data && 'size' in data;
}

function shardDataset(
  dataset: tf.data.Dataset<tf.TensorContainer>,
  given: Shard,
): tf.data.Dataset<tf.TensorContainer> {
  // tf.data.generator() takes async generators, though its declaration does not say so.
  const part = tf.data.generator((() =>
    dealt(dataset, given)) as never) as tf.data.Dataset<tf.TensorContainer>;
  const { size } = dataset;
  // fitDataset() derives the number of batches from it; Infinity (repeat()) and unknown (null) stay.
  const known = Number.isFinite(size) && size !== null;
  (part as { size: number }).size = known ? placesOf(size, given).length : size;
  return part;
}

async function* dealt(
  dataset: tf.data.Dataset<tf.TensorContainer>,
  { count, index, uneven }: Shard,
): AsyncGenerator<tf.TensorContainer> {
  const iterator = await dataset.iterator();
  // An endless dataset has no short deal, and its samples would be kept for nothing.
  const mayBeShort = uneven === 'pad' && dataset.size !== Number.POSITIVE_INFINITY;
  // A short last deal is filled up from these: this rank would need one of the first `index` samples.
  const first: tf.TensorContainer[] = [];
  let held: { value: tf.TensorContainer } | undefined; // this rank's sample of a deal that is not known to be full yet
  let seen = 0;
  try {
    for (; ; seen += 1) {
      const { value, done } = await iterator.next();
      if (done) break;
      if (mayBeShort && seen < index) first.push(mapTensors(value, (tensor) => tf.keep(tensor.clone())));
      if (seen % count !== index) tf.dispose(value);
      else if (uneven === 'drop') held = { value };
      else yield value;
      if (held !== undefined && seen % count === count - 1) {
        const { value: own } = held;
        held = undefined;
        yield own;
      }
    }
    const rest = seen % count;
    if (uneven !== 'pad' || rest === 0 || index < rest) return;
    const filler = first[(index - rest) % seen] as tf.TensorContainer;
    yield mapTensors(filler, (tensor) => tensor.clone());
  } finally {
    if (held !== undefined) tf.dispose(held.value);
    tf.dispose(first);
  }
}

function mapTensors(value: tf.TensorContainer, map: (tensor: tf.Tensor) => tf.Tensor): tf.TensorContainer {
  if (value instanceof tf.Tensor) return map(value);
  if (Array.isArray(value)) return value.map((element) => mapTensors(element, map));
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(
    Object.entries(value as Record<string, tf.TensorContainer>).map(([key, element]) => [
      key,
      mapTensors(element, map),
    ]),
  );
}
