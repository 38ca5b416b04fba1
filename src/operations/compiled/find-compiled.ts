// Finds the compiled operation that a call fits, or compiles one.

import type { Channel } from '../../engine/channel.ts';
import { Compression } from '../../tensor/compression/compression.ts';
import type { DType, TypedArray } from '../../tensor/dtype.ts';
import { Adasum, Average, type ReduceOp } from '../../tensor/reduce-op.ts';
import { naturalDtype, type TensorLike } from '../../tensor/tensor.ts';
import type { Collective } from '../collective.ts';
import {
  type AllreduceOptions,
  type AlltoallOptions,
  type BroadcastOptions,
  type CollectiveOptions,
  labelOf,
} from '../options.ts';
import type { Plan } from '../plan.ts';
import { type CallDetails, CompiledOperation, isCompilable } from './compiled-operation.ts';
import { Memory } from './memory.ts';
import type { CompiledRunner } from './slow-way.ts';
import { canBeInPlace, type Way, ways } from './ways.ts';

export type AnyOptions = AllreduceOptions & BroadcastOptions & AlltoallOptions;
// biome-ignore lint/suspicious/noExplicitAny: each collective has arguments of its own
export type AnyCollective = Collective<any, any, any>;

/** Each of the three returns undefined for a call that must take the common way. */
export class CompiledFinder {
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

  constructor(runner: CompiledRunner) {
    this.#runner = runner;
  }

  tensor(
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

  group(
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
    if (!haveOneDtype(xs)) return undefined;
    const place = name ?? placeWithoutName(xs.length, this.#details);
    const known = memory.remembered[way]?.get(place);
    if (known?.fits(name, this.#details) && known.fitsGroup(xs)) {
      memory.last[way] = known;
      return known;
    }
    return this.#compile(memory, way, collective, [xs], xs, options, place);
  }

  plain(
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
    if (channel?.group.quick === undefined) return undefined;
    // A window of time in which calls are gathered.
    if (isPromise && channel.waitsForMore) return undefined;
    let memory = this.#memory;
    if (memory?.channel !== channel) {
      memory = this.#memories.get(channel) ?? this.#remember(channel);
      this.#memory = memory;
    }
    return memory;
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
      // In place, because its result will not be used.
      const asked = canBeInPlace(way) ? { ...options, inPlace: true } : options;
      plan = collective.plan({ runner, args, options: asked, members, what });
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
    channel.tellCompiled(compiled.observed);
    return compiled;
  }
}

/** Where to look for a call without a name. Others may have the same place: what is there must fit. */
function placeWithoutName(
  elements: number,
  { op, root = -1 }: { op: ReduceOp | undefined; root: number | undefined },
): number {
  return elements * 64 + (((op?.code ?? 0) + 8 * (root + 1)) % 64);
}

/** Others take several rounds. */
function haveOneDtype(xs: readonly TensorLike[]): boolean {
  const first = dtypeIn(xs[0]);
  return first !== undefined && xs.every((x) => dtypeIn(x) === first);
}

function dtypeIn(x: TensorLike | undefined): DType | undefined {
  return ArrayBuffer.isView(x) ? naturalDtype(x) : x?.dtype;
}
