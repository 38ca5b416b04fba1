// The commits of a state of which each rank has a shard: which of them are mirrored, and when. versions.ts says what is kept.

import { HorovodError } from '../errors.ts';
import { MirrorSchedule } from './mirror-schedule.ts';
import { type ElasticRunner, isSharded, type ShardedPart, type StatePart } from './runner.ts';
import { allHolders, mirrorHolders, shardsOf, Versions } from './versions.ts';

/** Where this rank is in its generation. */
export interface Place {
  readonly generation: number;
  readonly rank: number;
  /** Number of each rank's host. */
  readonly hostOf: readonly number[];
}

export class Mirroring {
  readonly versions: Versions = new Versions();
  readonly #parts: readonly StatePart[];
  readonly #sharded: readonly ShardedPart[];
  #place: Place = { generation: 0, rank: 0, hostOf: [0] };
  #schedule: MirrorSchedule | undefined;
  /** What had been reduced when a commit was mirrored; undefined: all ranks are known to have it. */
  #unproven: number | undefined;

  /** Undefined where every rank has all of the state. */
  static of(parts: readonly StatePart[]): Mirroring | undefined {
    const sharded = parts.filter(isSharded);
    if (sharded.length === 0) return undefined;
    if (parts.every(({ hasSlots }) => hasSlots === true)) return new Mirroring(parts, sharded);
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      'the state has an optimizer with shardOptimizerState, so it keeps more than one commit, and one of your parts keeps one only. ' +
        'Give it hasSlots: true, and heed the slot in save(slot) and restore(slot).',
    );
  }

  private constructor(parts: readonly StatePart[], sharded: readonly ShardedPart[]) {
    this.#parts = parts;
    this.#sharded = sharded;
  }

  get #reductions(): number {
    return this.#sharded.reduce((sum, { reductions }) => sum + reductions, 0);
  }

  enter(place: Place): void {
    this.#place = place;
    this.#schedule = undefined;
  }

  /** In which slot to save the next commit. */
  slotForNext(): number {
    // See NOTE [Two mirrored commits].
    if (this.#unproven !== undefined && this.#reductions > this.#unproven) {
      this.#unproven = undefined;
      const free = this.versions.proven();
      if (free !== undefined) for (const part of this.#parts) part.forget?.(free);
    }
    return this.versions.nextSlot();
  }

  /** `step`: how many training steps this process had done. */
  saved(slot: number, commit: number, step: number): void {
    const { generation, rank, hostOf } = this.#place;
    this.versions.saved(slot, { commit, generation, members: hostOf.length, shards: [rank] }, step);
  }

  /** Whether the commit that was just saved is one to be mirrored: the same answer on all ranks. */
  isDue(commit: number): boolean {
    return this.#schedule?.isDue(commit) === true;
  }

  /** Mirrors the commit with which a generation starts. */
  async first(slot: number, commit: number): Promise<void> {
    const start = performance.now();
    await this.#send(slot, mirrorHolders(this.#place.hostOf));
    const now = performance.now();
    const given = this.#sharded.flatMap(({ mirrorEvery }) => mirrorEvery ?? []);
    const every = given.length === 0 ? undefined : Math.min(...given);
    this.#schedule = new MirrorSchedule(every, commit, now, now - start);
  }

  async mirror(slot: number, commit: number, runner: ElasticRunner): Promise<void> {
    const start = performance.now();
    const interval = await runner.highest(this.#proposal(commit, start));
    await this.#send(slot, mirrorHolders(this.#place.hostOf));
    this.#mirrored(commit, interval, start);
  }

  mirrorSync(slot: number, commit: number, runner: ElasticRunner): void {
    const start = performance.now();
    const interval = runner.highestSync(this.#proposal(commit, start));
    this.#sendSync(slot, mirrorHolders(this.#place.hostOf));
    this.#mirrored(commit, interval, start);
  }

  /** Gives every rank all shards: ranks are about to leave. */
  async spread(slot: number): Promise<void> {
    await this.#send(slot, allHolders(this.#place.hostOf.length));
  }

  spreadSync(slot: number): void {
    this.#sendSync(slot, allHolders(this.#place.hostOf.length));
  }

  /** By a name of each shard that this rank has of what is kept in the slot. */
  digests(slot: number): Record<string, string> {
    return Object.fromEntries(
      this.#sharded.flatMap((part, i) =>
        Object.entries(part.shardDigests(slot)).map(([name, digest]) => [`${i}: ${name}`, digest]),
      ),
    );
  }

  #proposal(commit: number, nowMs: number): number {
    return this.#schedule?.propose(commit, nowMs) ?? 1;
  }

  #mirrored(commit: number, interval: number, start: number): void {
    const now = performance.now();
    this.#schedule?.mirrored(commit, interval, now, now - start);
  }

  async #send(slot: number, holders: readonly (readonly number[])[]): Promise<void> {
    for (const part of this.#sharded) await part.mirror(slot, holders);
    this.#sent(holders);
  }

  #sendSync(slot: number, holders: readonly (readonly number[])[]): void {
    for (const part of this.#sharded) part.mirrorSync(slot, holders);
    this.#sent(holders);
  }

  #sent(holders: readonly (readonly number[])[]): void {
    const dropped = new Set(this.versions.slots());
    this.versions.mirrored(shardsOf(this.#place.rank, holders));
    for (const slot of this.versions.slots()) dropped.delete(slot);
    for (const slot of dropped) for (const part of this.#parts) part.forget?.(slot);
    this.#unproven = this.#reductions;
  }
}
