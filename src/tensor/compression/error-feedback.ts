// What compressors keep of a tensor from one call to the next: the residual of error feedback, which is this rank's own,
// and what all ranks have in common (PowerSGD's factor). A memory belongs to an optimizer, or to a process set.

/** Of one tensor. */
export interface TensorMemory {
  readonly shape: readonly number[];
  /** What was not sent yet; undefined without error feedback. */
  residual: Float32Array | undefined;
  /** The same on all ranks. */
  readonly shared: Map<string, Float32Array>;
}

/** Tensors remembered by one memory: who invents names for ever must not fill the memory for ever. */
const tensorsKept = 10_000;

export class CompressionMemory {
  readonly #tensors = new Map<string, TensorMemory>();
  readonly #say: (text: string) => void;

  /** `say` is told when something is forgotten because it does not fit any more. */
  constructor(say: (text: string) => void = () => {}) {
    this.#say = say;
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

  /** The memory of a tensor; a new one if there is none, or if the tensor has got another shape. */
  of(key: string, shape: readonly number[], hasResidual: boolean): TensorMemory {
    const known = this.#tensors.get(key);
    if (known !== undefined && known.shape.join() === shape.join()) {
      if (hasResidual) known.residual ??= zeros(shape);
      return known;
    }
    if (known !== undefined) {
      this.#say(
        `compression: ${key} had the shape [${known.shape.join(', ')}] and has [${shape.join(', ')}] now; ` +
          'its error feedback begins anew.',
      );
    }
    const made: TensorMemory = {
      shape: [...shape],
      residual: hasResidual ? zeros(shape) : undefined,
      shared: new Map(),
    };
    this.#tensors.set(key, made);
    if (this.#tensors.size > tensorsKept) {
      const [oldest] = this.#tensors.keys();
      this.#tensors.delete(oldest as string);
    }
    return made;
  }
}

function zeros(shape: readonly number[]): Float32Array {
  return new Float32Array(shape.reduce((product, length) => product * length, 1));
}
