// References to the data of tensors and variables, without tensors around them: one costs a counter instead of a copy, is not
// disposed by tf.tidy(), and keeps the values although the variable is assigned others. TensorFlow.js never writes into data that
// it has made, so the values stay what they were; its backends free data when nothing refers to it.

import * as tf from '@tensorflow/tfjs';

/** What is used here of the engine and its backends; not declared by TensorFlow.js. */
interface CountingBackend {
  incRef(dataId: object): void;
  disposeData(dataId: object): boolean;
}

interface OpenEngine {
  readonly backend: CountingBackend;
  readonly state: {
    readonly tensorInfo: { get(dataId: object): { readonly backend: CountingBackend } | undefined };
  };
  moveData(backend: CountingBackend, dataId: object): void;
  removeDataId(dataId: object, backend: CountingBackend): void;
  makeTensorFromTensorInfo(info: tf.TensorInfo): tf.Tensor;
}

/** References to the data of many tensors, by place. Taking others reuses its memory: a commit allocates nothing. */
export class References {
  readonly #ids: (object | undefined)[] = [];
  readonly #shapes: number[][] = [];
  readonly #dtypes: tf.DataType[] = [];

  /** Refers to the data of this tensor, and no longer to what there was at this place. */
  set(place: number, tensor: tf.Tensor): void {
    const old = this.#ids[place];
    const { dataId } = tensor;
    if (old === dataId) return;
    backendOf(dataId)?.incRef(dataId);
    this.#ids[place] = dataId;
    this.#shapes[place] = tensor.shape;
    this.#dtypes[place] = tensor.dtype;
    if (old !== undefined) release(old);
  }

  /** Refers to nothing at this place. */
  clear(place: number): void {
    const old = this.#ids[place];
    this.#ids[place] = undefined;
    if (old !== undefined) release(old);
  }

  /** Keeps the first so many places, and gives up the others. */
  cut(length: number): void {
    for (let place = length; place < this.#ids.length; place++) {
      const old = this.#ids[place];
      if (old !== undefined) release(old);
    }
    this.#ids.length = Math.min(this.#ids.length, length);
  }

  /** Whether this tensor has the data of the place. */
  isOf(place: number, { dataId }: tf.Tensor): boolean {
    return dataId === this.#ids[place];
  }

  /** A new tensor of the data, which belongs to the caller. The reference stays. */
  tensor(place: number): tf.Tensor {
    const dataId = this.#ids[place] as object;
    const { backend } = openEngine();
    // A variable counts the references of its data in the backend in use.
    if (backendOf(dataId) !== backend) openEngine().moveData(backend, dataId);
    backend.incRef(dataId);
    const info = {
      dataId,
      shape: this.#shapes[place] as number[],
      dtype: this.#dtypes[place] as tf.DataType,
    };
    return openEngine().makeTensorFromTensorInfo(info);
  }
}

function release(dataId: object): void {
  const backend = backendOf(dataId);
  if (backend?.disposeData(dataId)) openEngine().removeDataId(dataId, backend);
}

function openEngine(): OpenEngine {
  return tf.engine() as unknown as OpenEngine;
}

/** Where the data is. It may be of another backend than the one in use. */
function backendOf(dataId: object): CountingBackend | undefined {
  return openEngine().state.tensorInfo.get(dataId)?.backend;
}
