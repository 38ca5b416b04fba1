// The process sets a context knows, by id. Ids of removed sets are given out again, oldest first, as Horovod does.

import type { Channel } from '../../engine/channel.ts';
import { HorovodError } from '../../errors.ts';
import type { Members } from '../../operations/plan.ts';
import { isChosen, markAbsent, ProcessSet, register, unregister } from '../../operations/process-set.ts';
import type { CompressionKernels } from '../../tensor/compression/kernels.ts';

export interface RegisteredSet {
  readonly set: ProcessSet;
  readonly members: Members;
  /** Undefined where this rank is not in the set. */
  readonly channel: Channel | undefined;
  /** Prepared collectives without a name are matched by their order. */
  prepared: number;
  /** So are reducers of gradients (adapters/). */
  reducers: number;
}

export class ProcessSetTable {
  readonly #ownRank: number;
  readonly #hostOf: readonly number[] | undefined;
  readonly #kernels: CompressionKernels | undefined;
  readonly #sets = new Map<number, RegisteredSet>();
  readonly #freeIds: number[] = [];
  #nextNewId = 0;
  #globalChannel: Channel | undefined;

  /** `hostOf`: number of each rank's host, where it is known; `kernels`: the transport's own, if it has any. */
  constructor(
    ownRank: number,
    hostOf?: readonly number[] | undefined,
    kernels?: CompressionKernels | undefined,
  ) {
    this.#ownRank = ownRank;
    this.#hostOf = hostOf;
    this.#kernels = kernels;
  }

  /** The channel of the set of all ranks, which is the first one added. */
  get globalChannel(): Channel | undefined {
    return this.#globalChannel;
  }

  /** The id that the next set will get. */
  get nextId(): number {
    return this.#freeIds[0] ?? this.#nextNewId;
  }

  /** With their ids. */
  all(): (RegisteredSet & { readonly id: number })[] {
    return [...this.#sets].map(([id, registered]) => ({ id, ...registered }));
  }

  channels(): Channel[] {
    return [...this.#sets.values()].flatMap(({ channel }) => channel ?? []);
  }

  /** Undefined: the set of all ranks. */
  find(set: ProcessSet | undefined): RegisteredSet | undefined {
    if (set === undefined) return this.#sets.get(0);
    const registered = this.#sets.get(set.id ?? -1);
    return registered?.set === set ? registered : undefined;
  }

  /**
   * Throws for ranks that do not exist and for sets that do. In an elastic job the set of all ranks may be there a second time. Sets
   * whose ranks were chosen by a function may be equal to any other: with fewer ranks they often are.
   */
  checkNew(set: ProcessSet, size: number, isElastic = false): void {
    const { ranks } = set;
    const wrong = ranks.find((member) => member >= size);
    if (wrong !== undefined) {
      const hint = isElastic
        ? ' Use new ProcessSet((world) => ranks) where the number of ranks may change.'
        : '';
      const text = `a process set names rank ${wrong}, and there are ${size} ranks.${hint}`;
      throw new HorovodError('ERR_HVD_PROCESS_SET', text);
    }
    if (ranks.length === 0) {
      throw new HorovodError('ERR_HVD_PROCESS_SET', 'a process set needs at least one rank.');
    }
    if (isChosen(set)) return;
    const text = ranks.join(',');
    for (const [id, other] of this.#sets) {
      if ((id === 0 && isElastic) || other.members.ranks.join(',') !== text) continue;
      throw new HorovodError(
        'ERR_HVD_PROCESS_SET',
        `there is a process set of ranks ${text} already: ${other.set}.`,
      );
    }
  }

  add(set: ProcessSet, ranks: readonly number[], channel: Channel | undefined): void {
    const id = this.#freeIds.shift() ?? this.#nextNewId++;
    const hostOf = this.#hostOf;
    const members = {
      ranks,
      index: ranks.indexOf(this.#ownRank),
      hostOf: hostOf === undefined ? undefined : ranks.map((rank) => hostOf[rank] as number),
      kernels: this.#kernels,
    };
    this.#sets.set(id, { set, members, channel, prepared: 0, reducers: 0 });
    if (id === 0) this.#globalChannel = channel;
    register(set, { id, ranks, ownRank: this.#ownRank });
  }

  /** What is in flight ends with this error. */
  remove(set: ProcessSet, error: HorovodError): void {
    const registered = this.find(set);
    const { id } = set;
    if (registered === undefined || id === null) return;
    registered.channel?.fail(error);
    registered.channel?.close();
    this.#sets.delete(id);
    this.#freeIds.push(id);
    if (id === 0) this.#globalChannel = undefined;
    unregister(set);
  }

  removeAll(error: HorovodError): void {
    for (const { set } of [...this.#sets.values()]) {
      this.remove(set, error);
      if (error.code === 'ERR_HVD_STALE') markAbsent(set, goneWithGeneration);
    }
  }
}

const goneWithGeneration =
  'belonged to an earlier membership of the elastic job, which is over. Sets of init() come back with the next one; ' +
  'call addProcessSet() again in the function that elastic.run() calls.';

export function checkDistinct(sets: readonly ProcessSet[]): void {
  const seen = new Set<string>();
  sets.forEach((set, i) => {
    if (!(set instanceof ProcessSet)) {
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        `init: entry ${i} of processSets is not a ProcessSet.`,
      );
    }
    if (isChosen(set)) return;
    const text = set.ranks.join(',');
    if (seen.has(text)) {
      throw new HorovodError(
        'ERR_HVD_PROCESS_SET',
        `init: entry ${i} of processSets is a duplicate: ${set}.`,
      );
    }
    seen.add(text);
  });
}
