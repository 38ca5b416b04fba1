// Divides data of TensorFlow.js among ranks: tf.data datasets and tensors for model.fit(). Lists and indices: data/shard-list.ts.

import * as tf from '@tensorflow/tfjs';
import { checkedShard, placesOf, type Shard, type ShardOptions } from '../../../data/uneven.ts';
import { invalid } from '../../../operations/check-options.ts';
import type { TypedArray } from '../../../tensor/dtype.ts';
import { describe } from '../../../tensor/tensor.ts';
import { checkOrder, isList, labelOf, noteData, shardList } from '../../data/shard-list.ts';
import { digestOfList } from '../../divergence/data-notes.ts';
import { combineDigests, digestOf, strideOf } from '../../divergence/digest.ts';
import { liveView, readTensorLater } from '../tensor-access.ts';

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
  if (isList(data)) return shardList(data, given);
  throw invalid(
    what,
    `expected a tf.data.Dataset, a list or a typed array, not ${describe(data)}. Use shardTensors() for tensors`,
  );
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
  const given = checkedShard(rest, what);
  if (order !== undefined) checkOrder(Object(order), what, samples);
  noteData(given, labelOf(what, samples ?? 0), () =>
    combineDigests([...list.map(digestOfTensor), digestOfList(order ?? [])]),
  );
  const dealt = placesOf(order?.length ?? samples ?? 0, given);
  const places = order === undefined ? dealt : dealt.map((place) => order[place] as number);
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
  given: Shard,
): AsyncGenerator<tf.TensorContainer> {
  const { count, index, uneven } = given;
  const digests: number[] = [];
  const note = () => {
    const { size } = dataset;
    const label = Number.isFinite(size) && size !== null ? labelOf('shard()', size) : 'shard() of a dataset';
    noteData(given, label, () => combineDigests(digests));
  };
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
      if (given.isOfAllRanks && count > 1 && seen < comparedSamples) {
        digests.push(await digestOfSample(value));
        if (digests.length === comparedSamples) note();
      }
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
    if (seen < comparedSamples) note();
    const rest = seen % count;
    if (uneven !== 'pad' || rest === 0 || index < rest) return;
    const filler = first[(index - rest) % seen] as tf.TensorContainer;
    yield mapTensors(filler, (tensor) => tensor.clone());
  } finally {
    if (held !== undefined) tf.dispose(held.value);
    tf.dispose(first);
  }
}

/** Of a dataset, the first samples are compared: in an order of its own, a rank has others there. */
const comparedSamples = 16;
const maxWords = 4096;
const maxRows = 64;

/** Of some values, evenly spaced over all samples. */
function digestOfTensor(tensor: tf.Tensor): number {
  const view = liveView(tensor);
  if (view !== undefined) return digestOf(view, maxWords);
  // WebGPU cannot be read synchronously.
  if (tensor.size === 0 || tf.getBackend() === 'webgpu') return tensor.size;
  const rows: number[] = [];
  const samples = tensor.shape[0] as number;
  for (let row = 0; row < samples; row += strideOf(samples, maxRows)) rows.push(row);
  return tf.tidy(() => digestOf(tf.gather(tensor, tf.tensor1d(rows, 'int32')).dataSync(), maxWords));
}

async function digestOfSample(sample: tf.TensorContainer): Promise<number> {
  const tensors: tf.Tensor[] = [];
  mapTensors(sample, (tensor) => {
    tensors.push(tensor);
    return tensor;
  });
  const digests: number[] = [];
  for (const tensor of tensors) {
    if (tensor.dtype !== 'string') digests.push(digestOf(await readTensorLater(tensor), maxWords));
  }
  return combineDigests(tensors.length === 0 ? [digestOfList([sample])] : digests);
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
