// How process sets come and go after init(): every rank takes part in every change, in the same order, members or not.

import { HorovodError } from '../../errors.ts';
import { textsOf } from '../../operations/collectives/allgather.ts';
import type { CollectiveOptions } from '../../operations/options.ts';
import type { Plan } from '../../operations/plan.ts';
import {
  chooseRanks,
  markAbsent,
  type ProcessSet,
  type ProcessSetWorld,
} from '../../operations/process-set.ts';
import { checkWanted, failureText } from '../../transport/group/open-members.ts';
import type { AllgatherOperation, TransportGroup } from '../../transport/transport.ts';
import type { ContextParts } from '../context-parts.ts';
import { eitherOf } from '../start/start-watch.ts';
import { openTogether } from './open-together.ts';
import { checkDistinct, type ProcessSetTable } from './process-set-table.ts';

export interface ChangesHost {
  readonly parts: ContextParts;
  readonly sets: ProcessSetTable;
  run<R>(plan: Plan<R>, options: CollectiveOptions, what: string, key: string): Promise<R>;
  addSet(set: ProcessSet, ranks: readonly number[], group: TransportGroup | undefined): void;
}

export type ChangeOptions = { signal?: AbortSignal | undefined; timeoutMs?: number };

export class ProcessSetChanges {
  readonly #host: ChangesHost;
  #count = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(host: ChangesHost) {
    this.#host = host;
  }

  /** Those that all ranks have given to init(), in this order. */
  async addFirst(sets: readonly ProcessSet[], options: ChangeOptions): Promise<void> {
    checkDistinct(sets);
    for (const set of sets) chooseRanks(set, this.#world);
    const shown = sets.map((set) => `[${set.ranks.join(',')}]`).join(' ');
    await this.agreeOn(`init with ${shown || 'none'}`, options);
    const isElastic = this.#host.parts.worker !== undefined;
    for (const set of sets) {
      if (isElastic && set.ranks.length === 0) markAbsent(set, 'has no ranks in this membership of the job.');
      else await this.#open(set, options);
    }
  }

  add(set: ProcessSet, options: ChangeOptions): Promise<void> {
    return this.#inTurn(async () => {
      chooseRanks(set, this.#world);
      await this.#open(set, options);
    });
  }

  get #world(): ProcessSetWorld {
    const { world, hostOf } = this.#host.parts;
    return { size: world.size, hostOf: hostOf ?? Array.from({ length: world.size }, () => 0) };
  }

  /** All agree that it goes; what is open of it is the caller's to close. */
  remove(set: ProcessSet, options: CollectiveOptions): Promise<void> {
    return this.#inTurn(() => this.agreeOn(`remove ${set.ranks.join(',')}`, options));
  }

  /** Changes of process sets follow each other in the order of the calls, which is the same on all ranks. */
  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(change);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #open(set: ProcessSet, options: ChangeOptions): Promise<void> {
    const { transport, world, limits, members: numbers, worker } = this.#host.parts;
    const { sets } = this.#host;
    const { ranks } = set;
    sets.checkNew(set, world.size, worker !== undefined);
    await this.agreeOn(`add ${ranks.join(',')}`, options);
    const key = `horovod.process_set.${++this.#count}`;
    const index = ranks.indexOf(world.rank);
    const members = ranks.map((member) => numbers[member] as number);
    const timeoutMs = options.timeoutMs ?? limits.operationTimeoutMs;
    const giveUp = new AbortController();
    const signal = eitherOf(options.signal, giveUp.signal);
    // Everybody takes part in telling, members or not: it goes over the set of all ranks. The user's signal ends the opening
    // on this rank, and the others are told of that as of any failure.
    const telling = { timeoutMs };
    let told: Promise<string[]> | undefined;
    const tellOnce = (text: string) => (told ??= this.#exchangeAmongAll(`${key}.exchange`, text, telling));
    const exchange = async (text: string) => {
      const texts = await tellOnce(text);
      return ranks.map((member) => texts[member] as string);
    };
    const opening: Promise<TransportGroup | undefined> =
      index < 0
        ? tellOnce('').then(() => checkWanted({ id: sets.nextId, members, signal }) as undefined)
        : transport.openGroup({ id: sets.nextId, members, index, exchange, signal, timeoutMs });
    // A transport with nothing to tell, or that has failed before: the others expect it all the same.
    const hasTold = opening
      .then(() => tellOnce(''))
      .catch((error: unknown) => tellOnce(failureText(error)))
      .catch(() => undefined);
    let round = 0;
    const tell = (text: string) => this.#exchangeAmongAll(`${key}.state.${round++}`, text, telling);
    try {
      this.#host.addSet(set, ranks, await openTogether({ opening, tell }));
    } catch (error) {
      giveUp.abort(error);
      const [late] = await Promise.allSettled([opening, hasTold]);
      if (late.status === 'fulfilled') late.value?.close();
      throw error;
    }
  }

  async #exchangeAmongAll(key: string, text: string, options: CollectiveOptions): Promise<string[]> {
    const operation: AllgatherOperation = { kind: 'allgather', input: Buffer.from(text) };
    const plan: Plan<string[]> = {
      kind: 'processSet',
      operands: [],
      operations: [operation],
      detail: 'exchange',
      result: () => textsOf(operation),
    };
    return this.#host.run(plan, withoutName(options), 'addProcessSet', key);
  }

  async agreeOn(detail: string, options: CollectiveOptions): Promise<void> {
    const plan: Plan<void> = {
      kind: 'processSet',
      operands: [],
      operations: [{ kind: 'barrier' }],
      detail,
      result: () => undefined,
    };
    try {
      const key = `horovod.process_set.${++this.#count}`;
      await this.#host.run(plan, withoutName(options), 'a change of process sets', key);
    } catch (error) {
      // A rank that has joined has not counted this one.
      if (HorovodError.is(error) && error.code === 'ERR_HVD_JOIN_UNSUPPORTED') this.#count--;
      throw error;
    }
  }
}

function withoutName({ signal, timeoutMs }: CollectiveOptions): CollectiveOptions {
  return { signal, timeoutMs };
}
