// The short way of every collective. What was agreed before is remembered (remembered.ts); a call that fits it crosses into
// native code once and allocates nothing but its result. Everything else, and everything unusual, goes the common way; both
// ask for the same thing in the same words, so ranks may differ in which one they take.

import type { Channel } from '../../engine/channel.ts';
import { finishUnnamedFingerprint, unnamedKey } from '../../engine/description.ts';
import { Fingerprint } from '../../engine/fingerprint.ts';
import type { Request } from '../../engine/request.ts';
import { fromCaller, type HorovodError } from '../../errors.ts';
import { Compression } from '../../tensor/compression/compression.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import { Adasum, Average, type ReduceOp } from '../../tensor/reduce-op.ts';
import type { TensorLike } from '../../tensor/tensor.ts';
import {
  type QuickArrays,
  type QuickPlace,
  type QuickResult,
  quickPlaces,
  type TransportOperation,
} from '../../transport/transport.ts';
import type { Collective } from '../collective.ts';
import {
  type AllreduceOptions,
  type AlltoallOptions,
  type AlltoallResult,
  type BroadcastOptions,
  type CollectiveOptions,
  labelOf,
} from '../options.ts';
import type { Plan } from '../plan.ts';
import type { ProcessSet } from '../process-set.ts';
import type { OperationRunner } from '../runner.ts';
import { type CallDetails, CompiledOperation, dataOf, isCompilable } from './compiled-operation.ts';
import { Remembered } from './remembered.ts';

/** What compiled calls need of the rank they run on, besides what all collectives need. */
export interface CompiledRunner extends OperationRunner {
  readonly limits: { readonly operationTimeoutMs: number };
  /** The channel of a process set, if it is idle and well. */
  quickChannel(set: ProcessSet | undefined): Channel | undefined;
  /** The request of a quick operation that did not end at once. */
  requestFor<R>(slow: SlowOperation<R>): Request;
  /** Counts prepared collectives of a process set. */
  nextPrepared(set: ProcessSet | undefined, what: string): number;
  /** Undoes nextPrepared() for one that the others never counted. */
  returnPrepared(set: ProcessSet | undefined, what: string): void;
}

export interface SlowOperation<R> extends Pick<Request, 'resolve' | 'reject'> {
  readonly plan: Plan<R>;
  readonly options: CollectiveOptions;
  readonly key: string;
  /** As observers know it. */
  readonly sequence: number;
}

type AnyOptions = AllreduceOptions & BroadcastOptions & AlltoallOptions;
// biome-ignore lint/suspicious/noExplicitAny: each collective has arguments of its own
type AnyCollective = Collective<any, any, any>;

/** The collectives that have a short way: each remembers its own calls. */
export const ways = {
  allreduce: 0,
  groupedAllreduce: 1,
  broadcast: 2,
  allgather: 3,
  reducescatter: 4,
  alltoall: 5,
  barrier: 6,
  broadcastObject: 7,
  allgatherObject: 8,
} as const;
type Way = (typeof ways)[keyof typeof ways];

/** After a promise form whose ranks compared lists, so many take the common way, which takes a whole tick together … */
const firstPause = 1000;
/** … and twice as many the next time, up to this. */
const longestPause = 2 ** 24;

/** What a process set remembers, by way. */
class Memory {
  readonly channel: Channel;
  readonly remembered: readonly Remembered[] = Object.values(ways).map(() => new Remembered());
  readonly last: (CompiledOperation | undefined)[] = Object.values(ways).map(() => undefined);
  #pause = firstPause;
  #paused = 0;

  constructor(channel: Channel) {
    this.channel = channel;
  }

  /** Whether a promise form may go by itself. Not where programs start several at a time. */
  mayGoAlone(): boolean {
    if (this.#paused === 0) return true;
    this.#paused--;
    return false;
  }

  pause(): void {
    this.#paused = this.#pause;
    this.#pause = Math.min(2 * this.#pause, longestPause);
  }
}

/** What became of an operation: done; done, with a result of another size; or done by the common way. */
type Ended = 0 | QuickResult | TransportOperation;

export class CompiledCalls {
  readonly #runner: CompiledRunner;
  readonly #memories = new WeakMap<Channel, Memory>();
  #memory: Memory | undefined;
  /** Of the call at hand; filled anew for each, so that a call allocates nothing. */
  readonly #details: { -readonly [K in keyof CallDetails]: CallDetails[K] } = {
    op: undefined,
    prescale: 1,
    postscale: 1,
    root: undefined,
    splits: undefined,
  };
  readonly #fingerprint = new Fingerprint();

  constructor(runner: CompiledRunner) {
    this.#runner = runner;
  }

  // Each of these returns undefined for a call that must take the common way.

  tensorSync<T extends TensorLike, R = T>(
    way: Way,
    collective: AnyCollective,
    x: T,
    root: number | undefined,
    options: AnyOptions,
  ): R | undefined {
    const compiled = this.#findTensor(way, collective, x, root, options, false);
    if (compiled === undefined) return undefined;
    const data = dataOf(x);
    if (options.inPlace === true && isForInPlace(way)) {
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
      const compiled = this.#findTensor(way, collective, x, root, options, true);
      if (compiled === undefined) return undefined;
      const data = dataOf(x);
      if (options.inPlace === true && isForInPlace(way)) {
        const ended = this.#runSoon(compiled, data, data, quickPlaces.input);
        if (ended === 0) return Promise.resolve(x as unknown as R);
        return this.#endLater(compiled, ended, data, data, options, () => x as unknown as R);
      }
      const output = compiled.makeResult();
      const place = compiled.isSmall ? quickPlaces.small : quickPlaces.output;
      const ended = this.#runSoon(compiled, data, output, place);
      if (ended === 0) return Promise.resolve(resultOf(compiled, x, output, place, 0) as R);
      return this.#endLater(
        compiled,
        ended,
        data,
        output,
        options,
        (late) => resultOf(compiled, x, output, place, late) as R,
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
    const compiled = this.#findGroup(collective, xs, options, false);
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
      const compiled = this.#findGroup(collective, xs, options, true);
      if (compiled === undefined) return undefined;
      const inPlace = options.inPlace === true;
      const inputs = xs.map(dataOf);
      if (inPlace && hasTwice(inputs)) return undefined;
      const outputs = inPlace ? inputs : compiled.makeResults();
      const [input, output] = [arraysOf(inputs), arraysOf(outputs)];
      const ended = this.#runSoon(compiled, input, output, placeOf(inPlace));
      if (ended === 0) return Promise.resolve(groupResult(compiled, xs, outputs, inPlace));
      return this.#endLater(compiled, ended, input, output, options, () =>
        groupResult(compiled, xs, outputs, inPlace),
      );
    } catch (error) {
      return Promise.reject(error);
    }
  }

  barrierSync(collective: AnyCollective, options: CollectiveOptions): true | undefined {
    const compiled = this.#findPlain(ways.barrier, collective, noArguments, undefined, options, false);
    if (compiled === undefined) return undefined;
    this.#runNow(compiled, undefined, undefined, quickPlaces.input, options);
    return true;
  }

  barrierSoon(collective: AnyCollective, options: CollectiveOptions): Promise<void> | undefined {
    try {
      const compiled = this.#findPlain(ways.barrier, collective, noArguments, undefined, options, true);
      if (compiled === undefined) return undefined;
      const ended = this.#runSoon(compiled, undefined, undefined, quickPlaces.input);
      if (ended === 0) return Promise.resolve();
      return this.#endLater(compiled, ended, undefined, undefined, options, () => undefined);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Gathers the bytes that the ranks give; `bytesOf` is called if there is a short way. It returns undefined for what cannot be sent.
   */
  bytesSync<R>(call: BytesCall<R>): { readonly result: R } | undefined {
    const { way, collective, args, root, options } = call;
    const compiled = this.#findPlain(way, collective, args, root, options, false);
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
      const compiled = this.#findPlain(way, collective, args, root, options, true);
      const input = compiled === undefined ? undefined : call.bytes();
      if (compiled === undefined || input === undefined) return undefined;
      const output = compiled.makeResult() as Uint8Array;
      const place = compiled.isSmall ? quickPlaces.small : quickPlaces.output;
      const ended = this.#runSoon(compiled, input, output, place);
      const finish = (late: Ended) => call.result(...gathered(compiled, output, place, late));
      if (ended === 0) return Promise.resolve(finish(0));
      return this.#endLater(compiled, ended, input, output, options, finish);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  // --- Finding ------------------------------------------------------------------------------------------------

  #findTensor(
    way: Way,
    collective: AnyCollective,
    x: TensorLike,
    root: number | undefined,
    options: AnyOptions,
    isPromise: boolean,
  ): CompiledOperation | undefined {
    const memory = this.#open(way, options, root, isPromise);
    if (memory === undefined) return undefined;
    const { name } = options;
    const last = memory.last[way];
    if (last?.fits(name, this.#details) && last.fitsTensor(x)) return last;
    if (typeof x !== 'object' || x === null) return undefined;
    const elements = (ArrayBuffer.isView(x) ? (x as TypedArray) : x.data)?.length;
    if (!(elements > 0)) return undefined;
    const place = name ?? placeWithoutName(elements, this.#details);
    const known = memory.remembered[way]?.get(place);
    if (known?.fits(name, this.#details) && known.fitsTensor(x)) {
      memory.last[way] = known;
      return known;
    }
    const args = way === ways.broadcast ? [x, root] : [x];
    return this.#compile(memory, way, collective, args, [x], options, place);
  }

  #findGroup(
    collective: AnyCollective,
    xs: readonly TensorLike[],
    options: AllreduceOptions,
    isPromise: boolean,
  ): CompiledOperation | undefined {
    const way = ways.groupedAllreduce;
    const memory = this.#open(way, options, undefined, isPromise);
    if (memory === undefined || !Array.isArray(xs)) return undefined;
    const { name } = options;
    const last = memory.last[way];
    if (last?.fits(name, this.#details) && last.fitsGroup(xs)) return last;
    const place = name ?? placeWithoutName(xs.length, this.#details);
    const known = memory.remembered[way]?.get(place);
    if (known?.fits(name, this.#details) && known.fitsGroup(xs)) {
      memory.last[way] = known;
      return known;
    }
    return this.#compile(memory, way, collective, [xs], xs, options, place);
  }

  #findPlain(
    way: Way,
    collective: AnyCollective,
    args: readonly unknown[],
    root: number | undefined,
    options: CollectiveOptions,
    isPromise: boolean,
  ): CompiledOperation | undefined {
    const memory = this.#open(way, options, root, isPromise);
    if (memory === undefined) return undefined;
    const { name } = options;
    const last = memory.last[way];
    if (last?.fits(name, this.#details)) return last;
    const place = name ?? placeWithoutName(0, this.#details);
    const known = memory.remembered[way]?.get(place);
    if (known?.fits(name, this.#details)) {
      memory.last[way] = known;
      return known;
    }
    return this.#compile(memory, way, collective, args, [], options, place);
  }

  /** Reads the options. Undefined: the common way. */
  #open(way: Way, options: AnyOptions, root: number | undefined, isPromise: boolean): Memory | undefined {
    if (typeof options !== 'object' || options === null) return undefined;
    if (options.signal !== undefined || options.timeoutMs !== undefined) return undefined;
    const details = this.#details;
    if (way <= ways.groupedAllreduce || way === ways.reducescatter) {
      const { op, compression, prescaleFactor, postscaleFactor } = options;
      if (compression !== undefined && compression !== Compression.none) return undefined;
      if (op === Adasum) return undefined;
      details.op = op === undefined ? Average : op;
      details.prescale = prescaleFactor === undefined ? 1 : prescaleFactor;
      details.postscale = postscaleFactor === undefined ? 1 : postscaleFactor;
    } else {
      details.op = undefined;
      details.prescale = 1;
      details.postscale = 1;
    }
    details.root = root;
    details.splits = way === ways.alltoall ? options.splits : undefined;
    const channel = this.#runner.quickChannel(options.processSet);
    if (channel === undefined) return undefined;
    let memory = this.#memory;
    if (memory?.channel !== channel) {
      memory = this.#memories.get(channel) ?? this.#remember(channel);
      this.#memory = memory;
    }
    return isPromise && !memory.mayGoAlone() ? undefined : memory;
  }

  #remember(channel: Channel): Memory {
    const memory = new Memory(channel);
    this.#memories.set(channel, memory);
    return memory;
  }

  #compile(
    memory: Memory,
    way: Way,
    collective: AnyCollective,
    args: readonly unknown[],
    xs: readonly TensorLike[],
    options: CollectiveOptions,
    place: string | number,
  ): CompiledOperation | undefined {
    const { channel } = memory;
    const { quick } = channel.group;
    if (quick === undefined) return undefined;
    const runner = this.#runner;
    let plan: Plan<unknown>;
    try {
      const what = labelOf(collective.name, options);
      const members = runner.membersOf(options.processSet, what);
      plan = collective.plan({ runner, args, options, members, what });
    } catch {
      // The common way says what is wrong.
      return undefined;
    }
    if (!isCompilable(plan, xs)) return undefined;
    const compiled = new CompiledOperation(
      plan,
      xs,
      { ...this.#details },
      { channel, quick, name: options.name, processSet: options.processSet?.id ?? 0 },
    );
    memory.remembered[way]?.set(place, compiled);
    memory.last[way] = compiled;
    return compiled;
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

  /** A status other than 0 or undefined is for #endLater(). */
  #runSoon(
    compiled: CompiledOperation,
    input: QuickArrays,
    output: QuickArrays,
    place: QuickPlace,
  ): number | QuickResult | undefined {
    const { channel, quick, observed } = compiled;
    const { low, high } = this.#number(compiled);
    channel.beginQuick(observed, quick);
    const ended = quick.runSoon(compiled.operation, input, output, place, low, high);
    if (ended === 0 || typeof ended === 'object') channel.endQuick(observed, quick);
    return ended;
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

  /** A promise form has not ended at once, or with a result of another size. */
  #endLater<R>(
    compiled: CompiledOperation,
    ended: number | QuickResult | undefined,
    input: QuickArrays,
    output: QuickArrays,
    options: CollectiveOptions,
    finish: (late: Ended) => R,
  ): Promise<R> {
    if (typeof ended === 'object') return Promise.resolve(finish(ended));
    const { channel, quick, observed } = compiled;
    const { plan, operation } = compiled.planOf(input, output);
    return new Promise((resolve) => {
      const request = this.#runner.requestFor({
        plan,
        options,
        key: keyOf(compiled),
        sequence: observed.sequence,
        resolve: () => {
          if (request.wasExchanged === true) this.#memories.get(channel)?.pause();
          resolve(finish(operation));
        },
        reject: (error) => resolve(rejectAtCaller(error)),
      });
      if (ended === undefined) channel.adoptQuick(request, quick);
      else channel.settleQuick(request, quick, ended);
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

/** The peers of a blocking quick operation are late, want something else, or are gone. Throws what it ends with. */
export function finishSlowly<R>(
  runner: CompiledRunner,
  channel: Channel,
  quick: CompiledOperation['quick'],
  status: number,
  slow: Omit<SlowOperation<R>, 'resolve' | 'reject'>,
): void {
  let failure: HorovodError | undefined;
  const request = runner.requestFor({
    ...slow,
    resolve() {},
    reject(error) {
      failure = error;
    },
  });
  channel.settleQuickSync(request, quick, status);
  if (failure !== undefined) throw fromCaller(failure);
}

/**
 * A promise that resolves to this rejects with `error`, whose stack shows the line that awaits it. Only failures pay for it:
 * an async function around the operation would do the same, and makes small tensors 10 % slower.
 */
async function rejectAtCaller(error: HorovodError): Promise<never> {
  // V8 finds the awaiting line by way of the promises that wait for this one, and the first of them does so two jobs from now.
  await undefined;
  await undefined;
  throw fromCaller(error);
}

const noArguments: readonly unknown[] = [];

function keyOf({ name, observed }: CompiledOperation): string {
  return name ?? unnamedKey(observed.unnamed);
}

/** Where to look for a call without a name. Others may have the same place: what is there must fit. */
function placeWithoutName(
  elements: number,
  { op, root = -1 }: { op: ReduceOp | undefined; root: number | undefined },
): number {
  return elements * 64 + (((op?.code ?? 0) + 8 * (root + 1)) % 64);
}

function isForInPlace(way: Way): boolean {
  return way === ways.allreduce || way === ways.broadcast;
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
