// Error feedback: what a lossy compressor has not sent yet of an optimizer's gradients (tensor/compression/), by variable. It
// is gathered for a checkpoint and restored from it, on the same or another number of ranks: see NOTE [Another number of ranks] in
// residuals.ts.

import type * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../errors.ts';
import { invalid } from '../../../operations/check-options.ts';
import type { MemoryOptions } from '../../../operations/collectives/allreduce-compressed.ts';
import { alltoall } from '../../../operations/collectives.ts';
import type { ProcessSet } from '../../../operations/process-set.ts';
import { isReducing } from '../../../tensor/compression/compressor.ts';
import type { CompressionMemory } from '../../../tensor/compression/error-feedback.ts';
import type { TypedArray } from '../../../tensor/dtype.ts';
import { Average } from '../../../tensor/reduce-op.ts';
import { bytesOf, describe, elementsIn, type TensorLike } from '../../../tensor/tensor.ts';
import { type AdapterContext, currentContext } from '../../context.ts';
import { Residuals } from '../../residuals.ts';
import type { DistributedGradientTape } from './distributed-gradient-tape.ts';
import { type AnyVariable, variableOf } from './local-variables.ts';
import type { GradientRules } from './options.ts';

/** What all ranks have not sent yet. It can be cloned (structuredClone); saveModel() writes it beside the model. */
export interface ErrorFeedbackState {
  /** The compressor's name. */
  readonly compressor: string;
  readonly op: string;
  /** One for each variable, in their order; null where nothing is kept. */
  readonly tensors: readonly (SavedTensor | null)[];
}

export interface SavedTensor {
  readonly shape: readonly number[];
  /** One for each rank. */
  readonly residuals: readonly Float32Array[];
  /** What is the same on all ranks. */
  readonly shared: Readonly<Record<string, Float32Array>>;
}

/** Of one reducer of gradients. */
export class ErrorFeedback {
  readonly #rules: GradientRules;
  readonly #residuals: Residuals;
  #restored: { variables: readonly tf.Variable[]; state: ErrorFeedbackState } | undefined;
  /** Those whose gradients may be in the memory, by key. */
  readonly #variables = new Map<string, tf.Variable>();

  constructor(rules: GradientRules) {
    this.#rules = rules;
    this.#residuals = new Residuals(rules);
  }

  /** More options for an allreduce of these variables' gradients; none without a lossy compressor. */
  optionsFor(context: AdapterContext, variables: readonly tf.Variable[]): MemoryOptions {
    if (!isReducing(this.#rules.compression)) return {};
    for (const variable of variables) this.#variables.set(keyOf(variable), variable);
    return { compressionMemory: this.#memoryFor(context), compressionKeys: variables.map(keyOf) };
  }

  /** Gradients as the compressor needs them: lossy compressors need the shapes. */
  operands(arrays: readonly TypedArray[], variables: readonly tf.Variable[]): readonly TensorLike[] {
    if (!isReducing(this.#rules.compression)) return arrays;
    return arrays.map((data, i) => ({ data, shape: (variables[i] as tf.Variable).shape, dtype: 'float32' }));
  }

  /** Waits for reductions whose results nobody will use, and restores the residuals from before. */
  discard(wait: () => void): void {
    const { memory } = this.#residuals;
    const before = this.isKept ? memory?.keys().map((key) => memory.get(key)?.residual?.slice()) : undefined;
    wait();
    memory?.keys().forEach((key, i) => {
      const residual = before?.[i];
      if (residual !== undefined) memory.get(key)?.residual?.set(residual);
    });
  }

  /** Disposed variables get no more gradients. */
  forgetDisposed(): void {
    for (const [key, { isDisposed }] of this.#variables) {
      if (!isDisposed) continue;
      this.#variables.delete(key);
      this.#residuals.memory?.delete(this.#memoryKey(key));
    }
  }

  restore(variables: readonly tf.Variable[], state: ErrorFeedbackState): void {
    this.#restored = { variables, state };
  }

  /** Keeps the residuals of now, for goBack(). */
  save(slot = 0): void {
    this.#residuals.save(slot);
  }

  /** Returns to the residuals of save(). */
  goBack(slot = 0): void {
    this.#residuals.goBack(slot);
  }

  forget(slot: number): void {
    this.#residuals.forget(slot);
  }

  /** Collective, in a new generation of an elastic job. `variables`: in an order that is the same on all ranks. */
  async sync(root: number, lacking: readonly number[], variables: readonly tf.Variable[]): Promise<void> {
    for (const variable of variables) this.#variables.set(keyOf(variable), variable);
    await this.#residuals.sync(root, lacking, this.#memoryKeys(variables));
  }

  /** Of what must be equal on all ranks. */
  digest(variables: readonly tf.Variable[]): string {
    return this.#residuals.digest(this.#memoryKeys(variables));
  }

  get processSet(): ProcessSet | undefined {
    return this.#rules.processSet;
  }

  /** Whether this rank keeps residuals. */
  get isKept(): boolean {
    const { compression, processSet } = this.#rules;
    if (!isReducing(compression) || compression.errorFeedback !== true) return false;
    return processSet === undefined || processSet.included() !== false;
  }

  /** Collective over the ranks that reduce together; the first of them gets the state, the others undefined. */
  async gather(variables: readonly tf.Variable[]): Promise<ErrorFeedbackState | undefined> {
    const { compression, op, processSet, what, name } = this.#rules;
    const context = currentContext();
    const { ranks, index } = context.membersOf(processSet, what);
    const memory = this.#memoryFor(context);
    const tensors = variables.map((variable) => memory.get(this.#memoryKey(keyOf(variable))));
    const residuals = tensors.map((tensor) => tensor?.residual ?? new Float32Array(0));
    const own = Buffer.concat(residuals.map(bytesOf));
    const splits = ranks.map((_, i) => (i === 0 ? own.byteLength : 0));
    const { output, receivedSplits } = await alltoall(context, new Uint8Array(own), {
      splits,
      processSet,
      // If the optimizer has no name, calls are matched by their order.
      ...(name === undefined ? {} : { name: `${name}.error-feedback` }),
    });
    if (index !== 0) return undefined;
    if (receivedSplits.some((bytes) => bytes !== own.byteLength)) {
      throw new HorovodError(
        'ERR_HVD_MISMATCH',
        `${what}: the ranks have residuals of different variables; give the same list of variables on all ranks.`,
      );
    }
    let at = 0;
    const saved = tensors.map((tensor, i): SavedTensor | null => {
      const { byteLength } = residuals[i] as Float32Array;
      const from = at;
      at += byteLength;
      if (tensor === undefined) return null;
      return {
        shape: tensor.shape,
        residuals: ranks.map((_, rank) => {
          const start = rank * own.byteLength + from;
          return new Float32Array(output.slice(start, start + byteLength).buffer);
        }),
        shared: Object.fromEntries([...tensor.shared].map(([name, values]) => [name, values.slice()])),
      };
    });
    return { compressor: compression.name, op: op.name, tensors: saved };
  }

  #memoryFor(context: AdapterContext): CompressionMemory {
    const memory = this.#residuals.memoryIn(context);
    if (this.#restored !== undefined) this.#apply(context, memory, this.#restored);
    this.#restored = undefined;
    return memory;
  }

  #memoryKeys(variables: readonly tf.Variable[]): string[] {
    return variables.map((variable) => this.#memoryKey(keyOf(variable)));
  }

  /** As in operations/collectives/allreduce-compressed.ts. */
  #memoryKey(key: string): string {
    return `${this.#rules.compression.name}/${key}`;
  }

  #apply(
    context: AdapterContext,
    memory: CompressionMemory,
    { variables, state }: { variables: readonly tf.Variable[]; state: ErrorFeedbackState },
  ): void {
    const { compression, op, processSet, what } = this.#rules;
    const { ranks, index } = context.membersOf(processSet, what);
    state.tensors.forEach((saved, i) => {
      const variable = variables[i];
      if (saved === null || variable?.shape.join() !== saved.shape.join()) return;
      const isSame = state.compressor === compression.name && state.op === op.name;
      this.#variables.set(keyOf(variable), variable);
      memory.set(this.#memoryKey(keyOf(variable)), {
        shape: saved.shape,
        residual: this.isKept ? shareOf(saved.residuals, index, ranks.length, op === Average) : undefined,
        shared: new Map(
          isSame ? Object.entries(saved.shared).map(([name, values]) => [name, values.slice()]) : [],
        ),
      });
    });
  }
}

/** See NOTE [Another number of ranks] in residuals.ts. */
export function shareOf(
  residuals: readonly Float32Array[],
  index: number,
  size: number,
  isMean: boolean,
): Float32Array {
  const [first = new Float32Array(0)] = residuals;
  if (residuals.length === size) return (residuals[index] as Float32Array).slice();
  const parts = isMean ? residuals.length : size;
  return first.map((_, i) => residuals.reduce((sum, residual) => sum + (residual[i] as number), 0) / parts);
}

function isState(state: Partial<ErrorFeedbackState> | undefined): boolean {
  if (!Array.isArray(state?.tensors) || typeof state.compressor !== 'string') return false;
  return state.tensors.every((tensor: SavedTensor | null) => {
    if (tensor === null) return true;
    const { shape, residuals, shared } = Object(tensor) as Partial<SavedTensor>;
    if (!Array.isArray(shape) || !Array.isArray(residuals) || typeof shared !== 'object') return false;
    const length = elementsIn(shape);
    return residuals.length > 0 && residuals.every((each) => each?.length === length);
  });
}

function keyOf({ id }: tf.Variable): string {
  return `variable ${id}`;
}

const keepers = new WeakMap<object, ErrorFeedback>();

/** `owner` is an optimizer or a tape. */
export function registerErrorFeedback(owner: object, keeper: ErrorFeedback): void {
  keepers.set(owner, keeper);
}

/** Undefined where nothing is kept. */
export function errorFeedbackOf(owner: object): ErrorFeedback | undefined {
  const keeper = keepers.get(owner);
  return keeper?.isKept ? keeper : undefined;
}

/**
 * What a lossy compressor has not sent yet of the gradients of these variables (such as a model's trainableWeights), for a
 * checkpoint. Collective over the ranks that reduce together: the first of them gets it, the others get undefined. If nothing
 * is kept, all get undefined without waiting. saveModel() calls this.
 */
export async function gatherErrorFeedback(
  owner: tf.Optimizer | DistributedGradientTape,
  variables: readonly AnyVariable[],
): Promise<ErrorFeedbackState | undefined> {
  const what = 'gatherErrorFeedback';
  return errorFeedbackOf(Object(owner))?.gather(variables.map((variable) => variableOf(variable, what)));
}

/**
 * Restores what gatherErrorFeedback() returned, before training continues: each rank takes its part, and on another number of
 * ranks an equal share of all. Not collective, but call it on every rank with the same state. loadModel() calls this.
 */
export function restoreErrorFeedback(
  owner: tf.Optimizer | DistributedGradientTape,
  variables: readonly AnyVariable[],
  state: ErrorFeedbackState,
): void {
  const what = 'restoreErrorFeedback';
  if (!isState(state)) {
    throw invalid(what, `expected what gatherErrorFeedback() returned, not ${describe(state)}`);
  }
  const list = variables.map((variable) => variableOf(variable, what));
  errorFeedbackOf(Object(owner))?.restore(list, state);
}
