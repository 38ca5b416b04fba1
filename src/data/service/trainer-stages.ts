// What follows sendToDataService() in a pipeline: map(), filter(), batch() and take() on what has arrived, in the trainer. The names of
// batches travel along, and count as taken when the loop takes what was made of them.

import { HorovodError } from '../../errors.ts';
import { Grouping } from '../execute/grouping.ts';
import { isPromise, type Steps } from '../execute/maybe-async.ts';
import { functionsOf } from '../execute/stage-functions.ts';
import { keyOf, randomFractions } from '../order/random.ts';
import { describeReference, type ElementFunction, isReference } from '../plan/function-reference.ts';
import type { FunctionNode, PlanNode } from '../plan/nodes.ts';
import type { Plan } from '../plan/normalise.ts';
import type { BatchId } from './ledger-state.ts';

/** A value on its way to the loop. */
export interface Arrived {
  readonly value: unknown;
  /** What it is made of. */
  readonly ids: readonly BatchId[];
  readonly place: BatchId;
  readonly weight: number;
  /** Taken of the epoch, with this one. */
  readonly count: number;
}

/** An epoch has ended: batches do not mix epochs. */
export const boundary: unique symbol = Symbol('boundary');

type Next = Arrived | typeof boundary | undefined;
type Pull = () => Steps<Next>;
type Give = (id: BatchId) => void;

type BatchStage = Exclude<NonNullable<Plan['batch']>, { node: 'bucketByLength' }>;

export class TrainerStages {
  readonly #nodes: readonly PlanNode[];
  readonly #functions: readonly (ElementFunction | undefined)[];
  #taken = 0;
  /** Taken out of the stream, and in no batch yet. */
  readonly #held: Arrived[] = [];

  static async load(given: {
    readonly after: readonly PlanNode[];
    readonly functions: readonly ElementFunction[];
  }): Promise<TrainerStages> {
    const stages = new TrainerStages(given);
    return new TrainerStages(given, await functionsOf(stages.#nodes as never, given.functions));
  }

  constructor(
    { after }: { readonly after: readonly PlanNode[] },
    functions: readonly (ElementFunction | undefined)[] = [],
  ) {
    this.#nodes = after.filter(({ node }) => node !== 'prefetch');
    this.#functions = functions;
  }

  get isBatched(): boolean {
    return this.#batch !== undefined;
  }

  /** Batches go to the loop as they have come. */
  get passesOn(): boolean {
    return this.#nodes.every(({ node }) => node === 'take');
  }

  /** How many have to be held at the same time. */
  get needs(): number {
    return this.#batch?.size ?? 1;
  }

  /** How many come out of so many; null: nobody knows. */
  sizeOf(count: number): number | null {
    let left = count;
    for (const node of this.#nodes) {
      if (node.node === 'filter') return null;
      if (node.node === 'take') left = Math.min(left, node.count);
      if (node.node === 'batch' || node.node === 'paddedBatch')
        left = node.dropRemainder ? Math.floor(left / node.size) : Math.ceil(left / node.size);
    }
    return left;
  }

  /** `give`: for what leaves the stream here. */
  *next(pull: Pull, give: Give): Steps<Arrived | undefined> {
    for (;;) {
      const next = yield* this.#after(this.#nodes.length, pull, give);
      if (next !== boundary) return next;
    }
  }

  get #batch(): BatchStage | undefined {
    return this.#nodes.find(({ node }) => node === 'batch' || node === 'paddedBatch') as
      | BatchStage
      | undefined;
  }

  *#after(stage: number, pull: Pull, give: Give): Steps<Next> {
    const node = this.#nodes[stage - 1];
    if (node === undefined) return yield* pull();
    switch (node.node) {
      case 'take':
        if (this.#taken >= node.count) return undefined;
        break;
      case 'batch':
      case 'paddedBatch':
        return yield* this.#nextBatch(node, stage, pull, give);
      default:
    }
    for (;;) {
      const arrived = yield* this.#after(stage - 1, pull, give);
      if (arrived === undefined || arrived === boundary) return arrived;
      if (node.node === 'take') {
        this.#taken += 1;
        return arrived;
      }
      const result = yield* this.#call(node as FunctionNode, stage - 1, arrived);
      if (node.node === 'map') return { ...arrived, value: result };
      if (result) return arrived;
      // Nothing is lost: it would be filtered again.
      for (const id of arrived.ids) give(id);
    }
  }

  *#nextBatch(node: BatchStage, stage: number, pull: Pull, give: Give): Steps<Next> {
    while (this.#held.length < node.size) {
      const arrived = yield* this.#after(stage - 1, pull, give);
      if (arrived !== undefined && arrived !== boundary) {
        this.#held.push(arrived);
        continue;
      }
      const rest = this.#held.splice(0);
      if (node.dropRemainder) for (const { ids } of rest) for (const id of ids) give(id);
      return rest.length === 0 || node.dropRemainder ? arrived : batched(rest, node);
    }
    return batched(this.#held.splice(0), node);
  }

  *#call(node: FunctionNode, stage: number, { value, place }: Arrived): Steps<unknown> {
    const fn = this.#functions[stage] as ElementFunction;
    const { epoch, group, ordinal } = place;
    let random: (() => number) | undefined;
    const context = {
      random: () => {
        random ??= randomFractions(keyOf(epoch, group, ordinal, stage));
        return random();
      },
      epoch,
      position: ordinal,
      args: (isReference(node.fn) ? node.fn.args : null) as never,
    };
    try {
      const result = fn(value, context);
      return isPromise(result) ? yield result : result;
    } catch (cause) {
      if (HorovodError.is(cause) && cause.code === 'ERR_HVD_WOULD_BLOCK') throw cause;
      const name = isReference(node.fn) ? describeReference(node.fn) : node.fn.name || 'a function';
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new HorovodError(
        'ERR_HVD_DATA_FUNCTION',
        `${node.node}(${name}) failed at a batch of epoch ${epoch} that came from the data service: ${reason}`,
        { cause },
      );
    }
  }
}

function batched(parts: readonly Arrived[], node: BatchStage): Arrived {
  const grouping = new Grouping({ ...node, size: Number.POSITIVE_INFINITY, dropRemainder: false });
  for (const { value } of parts) grouping.add(value, undefined);
  const value = grouping.rest()[0]?.value;
  return { ...(parts.at(-1) as Arrived), value, ids: parts.flatMap(({ ids }) => ids) };
}
