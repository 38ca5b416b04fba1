// The short way of every collective. What was agreed before is remembered (remembered.ts); a call that fits it crosses into
// native code once and allocates nothing but its result. Everything else, and everything unusual, goes the common way; both
// ask for the same thing in the same words, so ranks may differ in which one they take.

import { finishUnnamedFingerprint, unnamedKey } from '../../engine/description.ts';
import { Fingerprint } from '../../engine/fingerprint.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import type { TensorLike } from '../../tensor/tensor.ts';
import {
  type QuickArrays,
  type QuickPlace,
  type QuickResult,
  quickPlaces,
  type TransportOperation,
} from '../../transport/transport.ts';
import type { AllreduceOptions, AlltoallResult, CollectiveOptions } from '../options.ts';
import { type CompiledOperation, dataOf } from './compiled-operation.ts';
import { type AnyCollective, type AnyOptions, CompiledFinder } from './find-compiled.ts';
import { type Ended, LoneOperation, type OperationArrays } from './lone-operation.ts';
import { type CompiledRunner, finishSlowly } from './slow-way.ts';
import { canBeInPlace, type Way, ways } from './ways.ts';

export class CompiledCalls {
  readonly #runner: CompiledRunner;
  readonly #find: CompiledFinder;
  readonly #fingerprint = new Fingerprint();

  constructor(runner: CompiledRunner) {
    this.#runner = runner;
    this.#find = new CompiledFinder(runner);
  }

  // Each of these returns undefined for a call that must take the common way.

  tensorSync<T extends TensorLike, R = T>(
    way: Way,
    collective: AnyCollective,
    x: T,
    root: number | undefined,
    options: AnyOptions,
  ): R | undefined {
    const compiled = this.#find.tensor(way, collective, x, root, options, false);
    if (compiled === undefined) return undefined;
    const data = dataOf(x);
    if (options.inPlace === true && canBeInPlace(way)) {
      this.#runNow(compiled, data, data, quickPlaces.input, options);
      return x as unknown as R;
    }
    const output = compiled.makeResult();
    const place = compiled.isSmall ? quickPlaces.small : quickPlaces.output;
    return resultOf(compiled, x, output, place, this.#runNow(compiled, data, output, place, options)) as R;
  }

  tensorSoon<T extends TensorLike, R = T>(
    way: Way,
    collective: AnyCollective,
    x: T,
    root: number | undefined,
    options: AnyOptions,
  ): Promise<R> | undefined {
    try {
      const compiled = this.#find.tensor(way, collective, x, root, options, true);
      if (compiled === undefined) return undefined;
      const data = dataOf(x);
      if (options.inPlace === true && canBeInPlace(way)) {
        const arrays = { input: data, output: data, place: quickPlaces.input };
        return this.#later(compiled, arrays, options, () => x as unknown as R);
      }
      const output = compiled.makeResult();
      const place = compiled.isSmall ? quickPlaces.small : quickPlaces.output;
      const arrays = { input: data, output, place };
      return this.#later(
        compiled,
        arrays,
        options,
        (ended) => resultOf(compiled, x, output, place, ended) as R,
      );
    } catch (error) {
      return Promise.reject(error);
    }
  }

  groupSync<T extends readonly TensorLike[]>(
    collective: AnyCollective,
    xs: T,
    options: AllreduceOptions,
  ): T | undefined {
    const compiled = this.#find.group(collective, xs, options, false);
    if (compiled === undefined) return undefined;
    const inPlace = options.inPlace === true;
    const inputs = xs.map(dataOf);
    if (inPlace && hasTwice(inputs)) return undefined;
    const outputs = inPlace ? inputs : compiled.makeResults();
    this.#runNow(compiled, arraysOf(inputs), arraysOf(outputs), placeOf(inPlace), options);
    return groupResult(compiled, xs, outputs, inPlace);
  }

  groupSoon<T extends readonly TensorLike[]>(
    collective: AnyCollective,
    xs: T,
    options: AllreduceOptions,
  ): Promise<T> | undefined {
    try {
      const compiled = this.#find.group(collective, xs, options, true);
      if (compiled === undefined) return undefined;
      const inPlace = options.inPlace === true;
      const inputs = xs.map(dataOf);
      if (inPlace && hasTwice(inputs)) return undefined;
      const outputs = inPlace ? inputs : compiled.makeResults();
      const arrays = { input: arraysOf(inputs), output: arraysOf(outputs), place: placeOf(inPlace) };
      return this.#later(compiled, arrays, options, () => groupResult(compiled, xs, outputs, inPlace));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  barrierSync(collective: AnyCollective, options: CollectiveOptions): true | undefined {
    const compiled = this.#find.plain(ways.barrier, collective, noArguments, undefined, options, false);
    if (compiled === undefined) return undefined;
    this.#runNow(compiled, undefined, undefined, quickPlaces.input, options);
    return true;
  }

  barrierSoon(collective: AnyCollective, options: CollectiveOptions): Promise<void> | undefined {
    try {
      const compiled = this.#find.plain(ways.barrier, collective, noArguments, undefined, options, true);
      if (compiled === undefined) return undefined;
      const arrays = { input: undefined, output: undefined, place: quickPlaces.input };
      return this.#later(compiled, arrays, options, () => undefined);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Gathers the bytes that the ranks give; `bytesOf` is called if there is a short way. It returns undefined for what cannot be sent.
   */
  bytesSync<R>(call: BytesCall<R>): { readonly result: R } | undefined {
    const { way, collective, args, root, options } = call;
    const compiled = this.#find.plain(way, collective, args, root, options, false);
    const input = compiled === undefined ? undefined : call.bytes();
    if (compiled === undefined || input === undefined) return undefined;
    const output = compiled.makeResult() as Uint8Array;
    const place = compiled.isSmall ? quickPlaces.small : quickPlaces.output;
    const ended = this.#runNow(compiled, input, output, place, options);
    return { result: call.result(...gathered(compiled, output, place, ended)) };
  }

  bytesSoon<R>(call: BytesCall<R>): Promise<R> | undefined {
    try {
      const { way, collective, args, root, options } = call;
      const compiled = this.#find.plain(way, collective, args, root, options, true);
      const input = compiled === undefined ? undefined : call.bytes();
      if (compiled === undefined || input === undefined) return undefined;
      const output = compiled.makeResult() as Uint8Array;
      const place = compiled.isSmall ? quickPlaces.small : quickPlaces.output;
      const finish = (ended: Ended) => call.result(...gathered(compiled, output, place, ended));
      return this.#later(compiled, { input, output, place }, options, finish);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  // --- Running ------------------------------------------------------------------------------------------------

  /** Gives the call its number, if it has no name, and its fingerprint. */
  #number(compiled: CompiledOperation): Fingerprint {
    if (compiled.name !== undefined) return compiled.fingerprint;
    const count = compiled.channel.nextUnnamed();
    compiled.observed.unnamed = count;
    finishUnnamedFingerprint(this.#fingerprint, compiled.fingerprint, count);
    return this.#fingerprint;
  }

  #runNow(
    compiled: CompiledOperation,
    input: QuickArrays,
    output: QuickArrays,
    place: QuickPlace,
    options: CollectiveOptions,
  ): Ended {
    const { channel, quick, observed } = compiled;
    const { low, high } = this.#number(compiled);
    channel.beginQuick(observed, quick);
    const ended = quick.runNow(compiled.operation, input, output, place, low, high);
    if (typeof ended === 'number' && ended !== 0)
      return this.#finishSlowly(compiled, ended, input, output, options);
    channel.endQuick(observed, quick);
    return ended as 0 | QuickResult;
  }

  /** The peers of a blocking call are late, want something else, or are gone. Throws what it ends with. */
  #finishSlowly(
    compiled: CompiledOperation,
    status: number,
    input: QuickArrays,
    output: QuickArrays,
    options: CollectiveOptions,
  ): TransportOperation {
    const { channel, quick, observed } = compiled;
    const { plan, operation } = compiled.planOf(input, output);
    finishSlowly(this.#runner, channel, quick, status, {
      plan,
      options,
      key: keyOf(compiled),
      sequence: observed.sequence,
    });
    return operation;
  }

  /** The promise form. */
  #later<R>(
    compiled: CompiledOperation,
    arrays: OperationArrays,
    options: CollectiveOptions,
    finish: (ended: Ended) => R,
  ): Promise<R> {
    return new Promise<R>((resolve) => {
      compiled.channel.defer(new LoneOperation(this.#runner, compiled, arrays, options, finish, resolve));
    });
  }
}

/** A collective on bytes, for CompiledCalls. */
export interface BytesCall<R> {
  readonly way: Way;
  readonly collective: AnyCollective;
  readonly args: readonly unknown[];
  readonly root: number | undefined;
  readonly options: CollectiveOptions;
  /** What this rank gives. Undefined: the common way says why that is impossible. */
  bytes(): Uint8Array | undefined;
  result(bytes: Uint8Array, byteCounts: ArrayLike<number>): R;
}

const noArguments: readonly unknown[] = [];

function keyOf({ name, observed }: CompiledOperation): string {
  return name ?? unnamedKey(observed.unnamed);
}

function placeOf(inPlace: boolean): QuickPlace {
  return inPlace ? quickPlaces.input : quickPlaces.output;
}

/** A group of one is no list for the transport. */
function arraysOf(list: readonly TypedArray[]): QuickArrays {
  return list.length === 1 ? list[0] : list;
}

function hasTwice(list: readonly TypedArray[]): boolean {
  if (list.length > 24) return new Set(list).size < list.length;
  for (let i = 1; i < list.length; i++) for (let j = 0; j < i; j++) if (list[i] === list[j]) return true;
  return false;
}

function resultOf(
  compiled: CompiledOperation,
  x: TensorLike,
  output: TypedArray,
  place: QuickPlace,
  ended: Ended,
): TensorLike | AlltoallResult<TensorLike> {
  const [data, counts] = gathered(compiled, output, place, ended);
  const y = compiled.wrap(x, data);
  return compiled.kind === 'alltoall' ? { output: y, receivedSplits: compiled.rowsOf(counts) } : y;
}

function gathered<A extends TypedArray>(
  compiled: CompiledOperation,
  output: A,
  place: QuickPlace,
  ended: Ended,
): [A, ArrayLike<number>] {
  const { quick } = compiled;
  if (ended === 0) {
    if (place === quickPlaces.small) compiled.takeSmall(output);
    return [output, quick.received];
  }
  if (Array.isArray(ended)) return [compiled.adoptResult(ended[0], 0, ended[0].byteLength) as A, ended[1]];
  if (ended.kind !== 'allgather' && ended.kind !== 'alltoall') return [output, quick.received];
  const { buffer, byteOffset, byteLength } = ended.output as Uint8Array;
  const counts = ended.kind === 'allgather' ? ended.byteCounts : ended.receivedBytes;
  return [compiled.adoptResult(buffer, byteOffset, byteLength) as A, counts as number[]];
}

function groupResult<T extends readonly TensorLike[]>(
  compiled: CompiledOperation,
  xs: T,
  outputs: TypedArray[],
  inPlace: boolean,
): T {
  return (inPlace ? [...xs] : compiled.wrapAll(xs, outputs)) as unknown as T;
}
