// A reference to the data of a tensor or variable, without a tensor around it: it costs a counter instead of a copy, is not disposed
// by tf.tidy(), and keeps the values although the variable is assigned others. TensorFlow.js never writes into data that it has
// made, so the values stay what they were; its backends free data when nothing refers to it.

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

export class Reference {
  readonly #info: tf.TensorInfo;

  constructor({ dataId, shape, dtype }: tf.Tensor) {
    this.#info = { dataId, shape, dtype };
    backendOf(dataId)?.incRef(dataId);
  }

  /** Whether this tensor has the same data. */
  isOf({ dataId }: tf.Tensor): boolean {
    return dataId === this.#info.dataId;
  }

  /** A new tensor of the data, which belongs to the caller. The reference stays. */
  tensor(): tf.Tensor {
    const { dataId } = this.#info;
    const { backend } = openEngine();
    // A variable counts the references of its data in the backend in use.
    if (backendOf(dataId) !== backend) openEngine().moveData(backend, dataId);
    backend.incRef(dataId);
    return openEngine().makeTensorFromTensorInfo(this.#info);
  }

  /** To be called once. */
  release(): void {
    const { dataId } = this.#info;
    const backend = backendOf(dataId);
    if (backend?.disposeData(dataId)) openEngine().removeDataId(dataId, backend);
  }
}

function openEngine(): OpenEngine {
  return tf.engine() as unknown as OpenEngine;
}

/** Where the data is. It may be of another backend than the one in use. */
function backendOf(dataId: object): CountingBackend | undefined {
  return openEngine().state.tensorInfo.get(dataId)?.backend;
}
