// The state that compressors keep for a tensor between calls: the residual of error feedback, which differs between ranks,
// and state that is the same on all ranks (PowerSGD's factor). A memory belongs to an optimizer, or to a process set.

import { elementsIn } from '../tensor.ts';

/** The state of one tensor. */
export interface TensorMemory {
  readonly shape: readonly number[];
  /** What was not sent yet; undefined without error feedback. */
  residual: Float32Array | undefined;
  /** The same on all ranks. */
  readonly shared: Map<string, Float32Array>;
}

/** Limits a memory, in case a program uses new names again and again. */
const maxTensors = 10_000;

export class CompressionMemory {
  readonly #tensors = new Map<string, TensorMemory>();
  readonly #warn: (text: string) => void;

  /** `warn` is called when the state of a tensor is dropped because its shape has changed. */
  constructor(warn: (text: string) => void = () => {}) {
    this.#warn = warn;
  }

  get size(): number {
    return this.#tensors.size;
  }

  keys(): string[] {
    return [...this.#tensors.keys()];
  }

  get(key: string): TensorMemory | undefined {
    return this.#tensors.get(key);
  }

  set(key: string, memory: TensorMemory): void {
    this.#tensors.delete(key);
    this.#tensors.set(key, memory);
  }

  delete(key: string): void {
    this.#tensors.delete(key);
  }

  clear(): void {
    this.#tensors.clear();
  }

  /** The state of a tensor; new if there is none, or if its shape has changed. */
  of(key: string, shape: readonly number[], hasResidual: boolean): TensorMemory {
    const known = this.#tensors.get(key);
    if (known !== undefined && known.shape.join() === shape.join()) {
      if (hasResidual) known.residual ??= new Float32Array(elementsIn(shape));
      return known;
    }
    if (known !== undefined) {
      this.#warn(
        `compression: the shape of ${key} has changed from [${known.shape.join(', ')}] to [${shape.join(', ')}]; ` +
          'its error feedback starts from zero.',
      );
    }
    const made: TensorMemory = {
      shape: [...shape],
      residual: hasResidual ? new Float32Array(elementsIn(shape)) : undefined,
      shared: new Map(),
    };
    this.#tensors.set(key, made);
    if (this.#tensors.size > maxTensors) {
      const [oldest] = this.#tensors.keys();
      this.#tensors.delete(oldest as string);
    }
    return made;
  }
}
