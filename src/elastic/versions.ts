// Which commits a rank can go back to. A state that every rank has in full keeps its last commit and nothing else. One of which
// each rank has a *shard* (shardOptimizerState) also keeps commits that were *mirrored*, of which other ranks have copies: where a
// rank is lost, only those are complete. The parts of a state keep each commit in a numbered *slot* and fill it again later.
//
// NOTE [Two mirrored commits]. A rank may have finished mirroring a commit when another has not, and never will: then the one
// before counts. It is kept until the next reduction of gradients has completed, which all ranks began after the mirroring.

/** A commit as other ranks see it. */
export interface Version {
  readonly commit: number;
  /** In which it was made: the shards are those of its ranks. */
  readonly generation: number;
  /** How many ranks that generation had. */
  readonly members: number;
  /** Shards of it that this rank has: its own, numbered by its rank then, and mirrors of others. */
  readonly shards: readonly number[];
}

interface Held {
  readonly slot: number;
  readonly version: Version;
  /** How many training steps this process had done. */
  readonly step: number;
  readonly isMirrored: boolean;
}

/** Slots that a state may need: two mirrored commits, and the last one. */
export const maxSlots = 3;

export class Versions {
  /** From the oldest to the last commit. */
  #held: readonly Held[] = [];

  /** Where the next commit is to be saved; what is kept there is given up by saved(). */
  nextSlot(): number {
    const taken = this.#held.filter(({ isMirrored }) => isMirrored).map(({ slot }) => slot);
    for (let slot = 0; slot < maxSlots; slot++) if (!taken.includes(slot)) return slot;
    throw new Error('more mirrored commits than slots');
  }

  /** A commit is saved in the slot that nextSlot() gave; it takes the place of the last one unless that was mirrored. */
  saved(slot: number, version: Version, step = 0): void {
    const before = this.#held.filter(({ isMirrored }) => isMirrored);
    this.#held = [...before, { slot, version, step, isMirrored: false }];
  }

  /** The last commit was mirrored, and this rank now has these shards of it. */
  mirrored(shards: readonly number[]): void {
    const last = this.#last();
    const before = this.#held.filter((held) => held.isMirrored && held !== last).slice(-1);
    this.#held = [...before, { ...last, version: { ...last.version, shards }, isMirrored: true }];
  }

  /** All ranks have finished what this one has mirrored last. Returns the slot that is free now. */
  proven(): number | undefined {
    const [first, second] = this.#held.filter(({ isMirrored }) => isMirrored);
    if (first === undefined || second === undefined) return undefined;
    this.#held = this.#held.filter((held) => held !== first);
    return first.slot;
  }

  /** What this rank can go back to, the last first. */
  list(): readonly Version[] {
    return this.#held.map(({ version }) => version).reverse();
  }

  /** Those that are in use. */
  slots(): number[] {
    return this.#held.map(({ slot }) => slot);
  }

  /** Where a version that list() has is kept; later ones are forgotten, as the job will never return to them. */
  goBackTo({ commit, generation }: Pick<Version, 'commit' | 'generation'>): Pick<Held, 'slot' | 'step'> {
    const place = this.#held.findIndex(
      ({ version }) => version.commit === commit && version.generation === generation,
    );
    const held = this.#held[place];
    if (held === undefined) throw new Error(`commit ${commit} of generation ${generation} is not kept`);
    // It stays until another is mirrored: the synchronization may fail.
    this.#held = [...this.#held.slice(0, place), { ...held, isMirrored: true }].slice(-2);
    return held;
  }

  #last(): Held {
    const last = this.#held.at(-1);
    if (last === undefined) throw new Error('nothing is saved');
    return last;
  }
}

/**
 * Which ranks get a copy of each rank's shard: the next one on another host, or the next one where all are on one host.
 * `hostOf`: number of each rank's host.
 */
export function mirrorHolders(hostOf: readonly number[]): number[][] {
  const size = hostOf.length;
  return hostOf.map((host, rank) => {
    const others = Array.from({ length: size - 1 }, (_, i) => (rank + i + 1) % size);
    const holder = others.find((other) => hostOf[other] !== host) ?? others[0];
    return holder === undefined ? [] : [holder];
  });
}

/** Every rank gets a copy of every shard: for ranks that leave, and nobody knows yet which. */
export function allHolders(size: number): number[][] {
  return Array.from({ length: size }, (_, rank) =>
    Array.from({ length: size }, (_, other) => other).filter((other) => other !== rank),
  );
}

/** The shards that `rank` has when all have been sent. */
export function shardsOf(rank: number, holders: readonly (readonly number[])[]): number[] {
  return [rank, ...holders.flatMap((ranks, shard) => (ranks.includes(rank) ? [shard] : []))];
}
