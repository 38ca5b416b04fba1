// Direct access to TensorFlow's memory. tfjs-node's dataSync() copies into a new array, and a tensor made from an array is
// copied once more when it is used. Our addon adds two operations to the TensorFlow that tfjs-node has loaded
// (native/src/tensorflow): one takes tensors, one gives them back.
//
// Words. To *take* tensors is to use them up and get their memory to write; `give()` makes tensors of it again. Memory that
// something else could see (another tensor, an array in JavaScript) is copied first, so taking is always safe.

import * as tf from '@tensorflow/tfjs';
import type { TypedArray } from '../../../tensor/dtype.ts';
import { addonForBackends, type NativeAddon, type NativeTensorList } from './addon.ts';

/** Tensors of one dtype: float32, int32 or bool. */
export interface BulkMemory {
  /** Copies each tensor's values into its array, which has the tensor's size and type. */
  read(tensors: readonly tf.Tensor[], into: readonly TypedArray[]): void;
  /** Disposes the tensors and hands out their memory. */
  take(tensors: readonly tf.Tensor[]): TakenTensors;
}

export interface TakenTensors {
  /** One for each tensor, in order. Theirs until give() or release(), and not to be used afterwards. */
  readonly views: readonly TypedArray[];
  /** Tensors with the same shapes and dtype, and what is in the views now. Once. */
  give(): tf.Tensor[];
  /** Instead of give(), if the values are not needed. */
  release(): void;
}

/** What of tfjs-node's backend is used here. */
interface NodeBackend {
  readonly binding: { readonly TF_ATTR_INT: number; readonly TF_ATTR_TYPE: number };
  readonly isUsingGpuDevice?: boolean;
  getDTypeInteger(dtype: string): number;
  executeMultipleOutputs(
    name: string,
    attributes: { name: string; type: number; value: number }[],
    inputs: readonly tf.Tensor[],
    outputs: number,
  ): tf.Tensor[];
}

interface Unreachable {
  readonly reason: string;
}

const memories = new WeakMap<object, BulkMemory | Unreachable>();

/** Undefined where the backend is another one, or our addon cannot reach its memory. */
export function bulkMemory(): BulkMemory | undefined {
  const found = findMemory();
  return 'reason' in found ? undefined : found;
}

/** Why bulkMemory() is undefined. */
export function bulkMemoryReason(): string | undefined {
  const found = findMemory();
  return 'reason' in found ? found.reason : undefined;
}

function findMemory(): BulkMemory | Unreachable {
  if (tf.getBackend() !== 'tensorflow') return { reason: `the backend is ${tf.getBackend()}` };
  const backend = tf.backend();
  const known = memories.get(backend);
  if (known !== undefined) return known;
  const found = connect(backend as unknown as NodeBackend);
  memories.set(backend, found);
  return found;
}

function connect(backend: NodeBackend): BulkMemory | Unreachable {
  if (backend.isUsingGpuDevice === true) return { reason: 'its tensors are on a GPU' };
  if (typeof backend.executeMultipleOutputs !== 'function') return { reason: 'it is not tfjs-node' };
  const addon = addonForBackends();
  if ('reason' in addon) return { reason: `there is no native addon: ${addon.reason}` };
  const names = addon.connectTensorflow();
  if (typeof names === 'string') return { reason: names };
  const probe = addon.makeTensors(backend.getDTypeInteger('float32'), [[1]], [new Float32Array(1)]);
  const isReachable = addon.tensorMemory(probe, 0) !== null;
  addon.releaseTensors(probe);
  if (!isReachable) return { reason: 'this build of V8 does not support external memory' };
  return new TensorflowMemory(backend, addon, names[0], names[1]);
}

// TensorFlow's allocator hands out the same addresses again and again, so views are kept and found by address.
const maxViews = 4096;

class TensorflowMemory implements BulkMemory {
  readonly #backend: NodeBackend;
  readonly #addon: NativeAddon;
  readonly #takeOperation: string;
  readonly #giveOperation: string;
  readonly #buffers = new Map<string, ArrayBuffer>();

  constructor(backend: NodeBackend, addon: NativeAddon, takeOperation: string, giveOperation: string) {
    this.#backend = backend;
    this.#addon = addon;
    this.#takeOperation = takeOperation;
    this.#giveOperation = giveOperation;
  }

  read(tensors: readonly tf.Tensor[], into: readonly TypedArray[]): void {
    if (tensors.length === 0) return;
    const list = this.#collect(tensors);
    try {
      this.#addon.copyTensors(list, into);
    } finally {
      this.#addon.releaseTensors(list);
    }
  }

  take(tensors: readonly tf.Tensor[]): TakenTensors {
    if (tensors.length === 0) return { views: [], give: () => [], release: () => {} };
    const dtype = commonDtype(tensors);
    const list = this.#collect(tensors);
    for (const tensor of tensors) tensor.dispose();
    const addresses = new Float64Array(tensors.length);
    this.#addon.ownTensors(list, addresses);
    return {
      views: tensors.map(({ size }, i) => this.#view(list, i, addresses[i] as number, dtype, size)),
      give: () => this.#give(list, tensors.length, dtype),
      release: () => this.#addon.releaseTensors(list),
    };
  }

  #collect(tensors: readonly tf.Tensor[]): NativeTensorList {
    const attributes = this.#attributes(tensors.length, commonDtype(tensors));
    this.#backend.executeMultipleOutputs(this.#takeOperation, attributes, tensors, 0);
    return this.#addon.collectTensors() as NativeTensorList;
  }

  #give(list: NativeTensorList, count: number, dtype: tf.DataType): tf.Tensor[] {
    this.#addon.offerTensors(list);
    return this.#backend.executeMultipleOutputs(
      this.#giveOperation,
      this.#attributes(count, dtype),
      [],
      count,
    );
  }

  #attributes(count: number, dtype: tf.DataType): { name: string; type: number; value: number }[] {
    const { TF_ATTR_INT, TF_ATTR_TYPE } = this.#backend.binding;
    return [
      { name: 'N', type: TF_ATTR_INT, value: count },
      { name: 'T', type: TF_ATTR_TYPE, value: this.#backend.getDTypeInteger(dtype) },
    ];
  }

  #view(list: NativeTensorList, i: number, address: number, dtype: tf.DataType, size: number): TypedArray {
    const ArrayType = arrayTypes[dtype as keyof typeof arrayTypes];
    if (size === 0) return new ArrayType(0);
    const key = `${address} ${size * ArrayType.BYTES_PER_ELEMENT}`;
    let buffer = this.#buffers.get(key);
    if (buffer === undefined) {
      if (this.#buffers.size >= maxViews) this.#buffers.clear();
      buffer = this.#addon.tensorMemory(list, i) as ArrayBuffer;
      this.#buffers.set(key, buffer);
    }
    return new ArrayType(buffer);
  }
}

const arrayTypes = { float32: Float32Array, int32: Int32Array, bool: Uint8Array };

function commonDtype(tensors: readonly tf.Tensor[]): tf.DataType {
  return (tensors[0] as tf.Tensor).dtype;
}
