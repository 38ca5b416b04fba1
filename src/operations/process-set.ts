// Process sets: named subsets of the ranks. A set is only a list of ranks until a context registers it.

import { HorovodError } from '../errors.ts';
import { describe } from '../tensor/tensor.ts';

/** What a context knows of a registered set. */
export interface Registration {
  readonly id: number;
  readonly ranks: readonly number[];
  /** Global rank of this process. */
  readonly ownRank: number;
}

// Written by contexts only. Users see it through the methods of ProcessSet.
const registrations = new WeakMap<ProcessSet, Registration>();

export class ProcessSet {
  readonly #ranks: readonly number[];

  /** Ranks in any order; the order within the set is ascending. */
  constructor(ranks: readonly number[]) {
    if (!Array.isArray(ranks) || !ranks.every((rank) => Number.isSafeInteger(rank) && rank >= 0)) {
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        `a ProcessSet takes a list of ranks (integers from 0), not ${describe(ranks)}.`,
      );
    }
    const sorted = [...ranks].sort((a, b) => a - b);
    const twice = sorted.find((rank, i) => rank === sorted[i + 1]);
    if (twice !== undefined) {
      throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `rank ${twice} is in the ProcessSet twice.`);
    }
    this.#ranks = Object.freeze(sorted);
  }

  /** Null until a context has registered the set, and again after it was removed. */
  get id(): number | null {
    return registrations.get(this)?.id ?? null;
  }

  get ranks(): readonly number[] {
    return registrations.get(this)?.ranks ?? this.#ranks;
  }

  /** This process's place in the set; null while the set is not registered. */
  rank(): number | null {
    const registration = registrations.get(this);
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
    return registrations.get(this)?.ranks.length ?? null;
  }

  /** Is this process in the set? Null while the set is not registered. */
  included(): boolean | null {
    const registration = registrations.get(this);
    return registration === undefined ? null : registration.ranks.includes(registration.ownRank);
  }

  toString(): string {
    return `ProcessSet(id=${this.id}, ranks=[${this.ranks.join(', ')}])`;
  }
}

export function register(set: ProcessSet, registration: Registration): void {
  registrations.set(set, registration);
}

export function unregister(set: ProcessSet): void {
  registrations.delete(set);
}
