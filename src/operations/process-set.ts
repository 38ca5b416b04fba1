// Process sets: named subsets of the ranks. A set is only a list of ranks, or a function that chooses them, until a context
// registers it.

import { HorovodError } from '../errors.ts';
import { describe } from '../tensor/tensor.ts';

/** What a context knows of a registered set. */
export interface Registration {
  readonly id: number;
  readonly ranks: readonly number[];
  /** Global rank of this process. */
  readonly ownRank: number;
}

/** What a function that chooses the ranks of a set is given: the same on all ranks. */
export interface ProcessSetWorld {
  /** The number of ranks. */
  readonly size: number;
  /** By rank: the number of its host, from 0. */
  readonly hostOf: readonly number[];
}

/** What contexts read and write, and users see through the methods of ProcessSet. */
interface Inside {
  registration?: Registration | undefined;
  /** Why it has none, where there is more to say than that: completes the sentence of which the set is the subject. */
  absence?: string | undefined;
  /** Of a set with a function: calls it. */
  readonly choose?: ((world: ProcessSetWorld) => void) | undefined;
}

const insides = new WeakMap<ProcessSet, Inside>();

export class ProcessSet {
  #ranks: readonly number[];

  /**
   * Ranks in any order; the order within the set is ascending. A function is called when the set is registered, in an elastic job
   * for each membership, and has to return the same ranks on all ranks.
   */
  constructor(ranks: readonly number[] | ((world: ProcessSetWorld) => readonly number[])) {
    if (typeof ranks !== 'function') {
      this.#ranks = checkedRanks(ranks);
      insides.set(this, {});
      return;
    }
    this.#ranks = [];
    const choose = (world: ProcessSetWorld) => {
      this.#ranks = checkedRanks(ranks(world));
    };
    insides.set(this, { choose });
  }

  /** Null until a context has registered the set, and again after it was removed. */
  get id(): number | null {
    return insides.get(this)?.registration?.id ?? null;
  }

  get ranks(): readonly number[] {
    return insides.get(this)?.registration?.ranks ?? this.#ranks;
  }

  /** This process's place in the set; null while the set is not registered. */
  rank(): number | null {
    const registration = insides.get(this)?.registration;
    if (registration === undefined) return null;
    const place = registration.ranks.indexOf(registration.ownRank);
    if (place >= 0) return place;
    throw new HorovodError(
      'ERR_HVD_PROCESS_SET',
      `rank ${registration.ownRank} is not part of ${this.toString()}.`,
      { rank: registration.ownRank },
    );
  }

  /** Null while the set is not registered. */
  size(): number | null {
    return insides.get(this)?.registration?.ranks.length ?? null;
  }

  /** Is this process in the set? Null while the set is not registered. */
  included(): boolean | null {
    const registration = insides.get(this)?.registration;
    return registration === undefined ? null : registration.ranks.includes(registration.ownRank);
  }

  toString(): string {
    return `ProcessSet(id=${this.id}, ranks=[${this.ranks.join(', ')}])`;
  }
}

function checkedRanks(ranks: readonly number[]): readonly number[] {
  if (!Array.isArray(ranks) || !ranks.every((rank) => Number.isSafeInteger(rank) && rank >= 0)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `a ProcessSet takes a list of ranks (integers from 0), or a function that returns one, not ${describe(ranks)}.`,
    );
  }
  const sorted = [...ranks].sort((a, b) => a - b);
  const twice = sorted.find((rank, i) => rank === sorted[i + 1]);
  if (twice !== undefined) {
    throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `rank ${twice} is in the ProcessSet twice.`);
  }
  return Object.freeze(sorted);
}

/** Whether a function chooses its ranks. */
export function isChosen(set: ProcessSet): boolean {
  return insides.get(set)?.choose !== undefined;
}

/** Lets a set with a function choose its ranks, which may be none. Before the set is registered. */
export function chooseRanks(set: ProcessSet, world: ProcessSetWorld): void {
  insides.get(set)?.choose?.(world);
}

/** The error for using a set that has no id. */
export function notRegistered(set: unknown, what: string): HorovodError {
  const [who, absence] =
    set instanceof ProcessSet
      ? [String(set), insides.get(set)?.absence]
      : ['a value that is not a ProcessSet', undefined];
  const why =
    absence ?? 'is not registered, or has been removed. Give it to init({ processSets }) or addProcessSet().';
  return new HorovodError('ERR_HVD_PROCESS_SET', `${what}: ${who} ${why}`);
}

/** `why` completes the sentence of which the set is the subject. */
export function markAbsent(set: ProcessSet, why: string): void {
  const inside = insides.get(set);
  if (inside !== undefined) inside.absence = why;
}

export function register(set: ProcessSet, registration: Registration): void {
  const inside = insides.get(set);
  if (inside === undefined) return;
  inside.registration = registration;
  inside.absence = undefined;
}

export function unregister(set: ProcessSet): void {
  const inside = insides.get(set);
  if (inside !== undefined) inside.registration = undefined;
}
