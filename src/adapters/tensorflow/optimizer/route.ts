// The way that the gradients of one list of variables take: what the ranks agreed on (gradient-agreement.ts), cut into buckets
// (bucket-plan.ts). A *staged* bucket has a buffer in which its gradients lie one after the other.

import type * as tf from '@tensorflow/tfjs';
import { alloc } from '../../../operations/alloc.ts';
import type { MemoryOptions } from '../../../operations/collectives/allreduce-compressed.ts';
import { groupedAllreduceSync } from '../../../operations/collectives.ts';
import type { AllreduceOptions } from '../../../operations/options.ts';
import type { PreparedCollective, StartedCollective } from '../../../operations/prepared.ts';
import { chosenCompressor, isAuto } from '../../../tensor/compression/auto.ts';
import { isReducing } from '../../../tensor/compression/compressor.ts';
import type { TypedArray } from '../../../tensor/dtype.ts';
import { Adasum } from '../../../tensor/reduce-op.ts';
import type { AdapterContext } from '../../context.ts';
import { bulkMemory } from '../backend/tfjs-node-memory.ts';
import { heapOfBackend, liveView } from '../tensor-access.ts';
import { planBuckets } from './bucket-plan.ts';
import type { ErrorFeedback } from './error-feedback.ts';
import type { Agreement, Mode } from './gradient-agreement.ts';
import type { GradientRules } from './options.ts';

export interface Bucket {
  /** Places of its variables in the list. */
  readonly places: readonly number[];
  readonly name: string;
  /** Undefined in mode direct. */
  readonly staging: Staging | undefined;
}

export interface Staging {
  /** Each gradient's part of the buffer. */
  readonly parts: readonly Float32Array[];
  readonly prepared: PreparedCollective<unknown>;
}

export interface RouteParts {
  readonly context: AdapterContext;
  readonly rules: GradientRules;
  readonly errorFeedback: ErrorFeedback;
  readonly name: string;
  readonly variables: readonly tf.Variable[];
  readonly agreement: Agreement;
}

export class Route {
  readonly context: AdapterContext;
  readonly name: string;
  readonly mode: Mode;
  /** Before each step the ranks ask each other whether one has a gradient that this route lacks. */
  readonly mayGrow: boolean;
  /** Places of the gradients that are reduced. */
  readonly places: ReadonlySet<number>;
  readonly buckets: readonly Bucket[];
  readonly #rules: GradientRules;
  readonly #errorFeedback: ErrorFeedback;
  readonly #settingsVersion: number;
  /** One for each bucket that was started and not yet waited for; buckets start in order. */
  readonly #inFlight: StartedCollective<unknown>[] = [];
  #calls = 0;

  constructor({ context, rules, errorFeedback, name, variables, agreement }: RouteParts) {
    this.context = context;
    this.name = name;
    this.mode = agreement.mode;
    this.mayGrow = agreement.mayGrow;
    this.places = new Set(agreement.order);
    this.#rules = rules;
    this.#errorFeedback = errorFeedback;
    this.#settingsVersion = context.gradients.version;
    this.buckets = this.#makeBuckets(variables, agreement.order);
  }

  /** Made in this context, with its present settings. */
  isCurrent(context: AdapterContext): boolean {
    return this.context === context && this.#settingsVersion === context.gradients.version;
  }

  /** A name for the next call of the promise form. Several calls may be in flight. */
  nextCall(): string {
    return `${this.name}.later.${this.#calls++}`;
  }

  /** Buckets that have not been started in this pass. */
  waiting(): readonly Bucket[] {
    return this.buckets.slice(this.#inFlight.length);
  }

  /** Starts the first bucket that waits. */
  startNext(): void {
    const { staging } = this.buckets[this.#inFlight.length] as Bucket;
    this.#inFlight.push((staging as Staging).prepared.start());
  }

  waitForAll(): void {
    const inFlight = this.#inFlight;
    for (let next = inFlight.shift(); next !== undefined; next = inFlight.shift()) next.waitSync();
  }

  /** Waits for buckets in flight; nobody will use their results. */
  discardStarted(): void {
    if (this.#inFlight.length > 0) this.#errorFeedback.discard(() => this.waitForAll());
  }

  release(): void {
    for (const { staging } of this.buckets) staging?.prepared.release();
  }

  options(name: string, variables: readonly tf.Variable[]): AllreduceOptions & MemoryOptions {
    const { op, compression, prescaleFactor, postscaleFactor, processSet } = this.#rules;
    const chosen = isAuto(compression)
      ? this.context.gradients.chooseCompressor(compression.choices.map((choice) => choice.name))
      : undefined;
    return {
      op,
      compression: chosenCompressor(compression, chosen),
      prescaleFactor,
      postscaleFactor,
      processSet,
      name,
      ...this.#errorFeedback.optionsFor(this.context, variables),
    };
  }

  /** Reduces tensors in their memory and uses them up; each is ours and shares its memory with no other. */
  reduceInPlace(
    { name }: Bucket,
    tensors: readonly tf.Tensor[],
    variables: readonly tf.Variable[],
  ): readonly tf.Tensor[] {
    const options = { ...this.options(name, variables), inPlace: true };
    const reduce = (views: readonly TypedArray[]) =>
      groupedAllreduceSync(this.context, this.#errorFeedback.operands(views, variables), options);
    const taken = bulkMemory()?.take(tensors);
    if (taken === undefined) {
      const heap = heapOfBackend();
      if (heap !== undefined) this.context.adoptMemory(heap);
      // No call of tf between taking the views and the end of the reduction: it could invalidate them.
      reduce(tensors.map((tensor) => liveView(tensor) as TypedArray));
      return tensors;
    }
    try {
      reduce(taken.views);
    } catch (error) {
      taken.release();
      throw error;
    }
    return taken.give();
  }

  #makeBuckets(variables: readonly tf.Variable[], order: readonly number[]): Bucket[] {
    const { groups } = this.#rules;
    const placeOf = new Map(variables.map((variable, place) => [variable, place]));
    return planBuckets({
      bytes: variables.map(({ size }) => size * Float32Array.BYTES_PER_ELEMENT),
      order,
      groups:
        groups === undefined || typeof groups === 'number'
          ? groups
          : groups.map((group) => group.flatMap((variable) => placeOf.get(variable) ?? [])),
      // The engine fuses and cuts; buckets are for starting early.
      bucketBytes: this.mode === 'overlapped' ? this.context.gradients.bucketBytes : Number.POSITIVE_INFINITY,
    }).map((places, i): Bucket => {
      const name = `${this.name}.${i}`;
      const own = places.map((place) => variables[place] as tf.Variable);
      return { places, name, staging: this.mode === 'direct' ? undefined : this.#stage(name, own) };
    });
  }

  #stage(name: string, variables: readonly tf.Variable[]): Staging {
    const total = variables.reduce((sum, { size }) => sum + size, 0);
    const buffer = alloc(this.context, total).data as Float32Array;
    let from = 0;
    const parts = variables.map(({ size }) => {
      from += size;
      return buffer.subarray(from - size, from);
    });
    const { op, compression } = this.#rules;
    // Adasum and lossy compressors need to know where each gradient begins.
    const needsParts = op === Adasum || isReducing(compression);
    const operand = needsParts ? this.#errorFeedback.operands(parts, variables) : buffer;
    return {
      parts,
      prepared: this.context.prepareAllreduceSync(operand, this.options(name, variables)),
    };
  }
}
