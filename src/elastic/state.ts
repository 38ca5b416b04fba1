// State: what a job goes back to when it has lost ranks, and what new ranks receive. It is made of parts (runner.ts). save()
// keeps it under a number, the *commit*; restore() goes back to it. While run() runs, commits are counted alike on all ranks: the
// highest commit that a survivor has is where the next generation starts.

import { createHash } from 'node:crypto';
import { broadcastObject } from '../context/default/default-collectives.ts';
import { size } from '../context/default/default-membership.ts';
import { HorovodError } from '../errors.ts';
import { describe } from '../tensor/tensor.ts';
import type { ElectedShards } from './elect.ts';
import { isHostsUpdated } from './kinds-of-errors.ts';
import { Mirroring, type Place } from './mirroring.ts';
import type { ElasticRunner, Reset, ShardPlan, StatePart, StepCount } from './runner.ts';
import type { Version } from './versions.ts';

/** What run() sees of a state. */
export interface RunSide {
  /** The number of the last commit; −1 on a rank that has none yet. */
  readonly commits: number;
  attach(runner: ElasticRunner | undefined): void;
  /** What this rank can go back to, the last first; undefined where every rank has all of the state. */
  readonly versions: readonly Version[] | undefined;
  /** This rank has none of the job's state: whatever it has will be replaced. */
  becomeNewcomer(): void;
  /**
   * Goes back to a commit of which all shards are there. Returns how many training steps this process had done then; undefined on a
   * rank that was not there.
   */
  goBackTo(shards: ElectedShards): number | undefined;
  /** Collective: takes over the root's state, and saves it under the root's number when all of it has come. */
  syncFrom(source: Source): Promise<void>;
  /** Equal on all ranks that have the same state. */
  digest(): string;
  /** The same for each shard that this rank has; empty where every rank has all of the state. */
  shardDigests(): Readonly<Record<string, string>>;
  callResets(reset: Reset): Promise<void>;
}

/** From where a generation takes its state. */
export interface Source {
  readonly root: number;
  readonly lacking: readonly number[];
  readonly shards?: ElectedShards | undefined;
  /** Undefined in a job that is not elastic. */
  readonly place?: Place | undefined;
  readonly steps?: StepCount | undefined;
}

const sides = new WeakMap<State, RunSide>();

/** For run() only. */
export function runSideOf(state: State): RunSide {
  const side = sides.get(state);
  if (side !== undefined) return side;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `elastic.run() takes a state, such as new ObjectState({ epoch: 0 }), not ${describe(state)}.`,
  );
}

type ResetCallback = (reset: Reset) => void | Promise<void>;

export abstract class State {
  #commits = 0;
  #isNewcomer = false;
  #hasSaved = false;
  /** Where the last commit is kept. */
  #slot = 0;
  #runner: ElasticRunner | undefined;
  /** Of this process; undefined in a job that is not elastic. */
  #steps: StepCount | undefined;
  #mirroring: { readonly of: Mirroring | undefined } | undefined;
  readonly #callbacks = new Set<{ readonly call: ResetCallback }>();

  constructor() {
    const state = this;
    sides.set(this, {
      get commits() {
        return state.#isNewcomer ? -1 : state.#commits;
      },
      get versions() {
        return state.#mirrors?.versions.list();
      },
      attach: (runner) => {
        this.#runner = runner;
        this.#steps = runner?.steps ?? this.#steps;
      },
      becomeNewcomer: () => {
        this.#isNewcomer = true;
      },
      goBackTo: (shards) => this.#goBackTo(shards),
      syncFrom: (source) => this.#syncFrom(source),
      digest: () => this.#digest(),
      shardDigests: () => this.#mirrors?.digests(this.#slot) ?? {},
      callResets: (reset) => this.#callResets(reset),
    });
  }

  /** The number of the last commit; the same on all ranks. */
  get commits(): number {
    return this.#commits;
  }

  /**
   * Saves the state: the job goes back to here if it loses ranks. Now and then it also checks for new or removed hosts, as
   * checkHostUpdates() does. Call it at the same points on all ranks. Does nothing in the middle of gradient aggregation.
   */
  async commit(): Promise<void> {
    if (!this.#save()) return;
    const runner = this.#runner;
    if (runner === undefined) return;
    const commit = this.#commits;
    if (this.#mirrors?.isDue(commit)) await this.#mirrors.mirror(this.#slot, commit, runner);
    if (runner.isDue(commit)) await this.checkHostUpdates();
  }

  /** The blocking form of commit(). */
  commitSync(): void {
    if (!this.#save()) return;
    const runner = this.#runner;
    if (runner === undefined) return;
    const commit = this.#commits;
    if (this.#mirrors?.isDue(commit)) this.#mirrors.mirrorSync(this.#slot, commit, runner);
    if (runner.isDue(commit)) this.checkHostUpdatesSync();
  }

  /**
   * Throws ERR_HVD_HOSTS_UPDATED, on all ranks at once, if ranks are to join or leave. Let it pass: run() forms the job anew and
   * calls the training function again. Collective; does nothing outside of run().
   */
  async checkHostUpdates(): Promise<void> {
    try {
      await this.#runner?.check(this.#commits);
    } catch (error) {
      if (isHostsUpdated(error) && this.#saveShards()) await this.#mirrors?.spread(this.#slot);
      throw error;
    }
  }

  /** The blocking form of checkHostUpdates(). */
  checkHostUpdatesSync(): void {
    try {
      this.#runner?.checkSync(this.#commits);
    } catch (error) {
      if (isHostsUpdated(error) && this.#saveShards()) this.#mirrors?.spreadSync(this.#slot);
      throw error;
    }
  }

  /** commit() without the check. */
  save(): void {
    this.#save();
  }

  /** Goes back to the last commit. Before the first one there is nothing to go back to, and the state stays as it is. */
  restore(): void {
    if (!this.#hasSaved) return;
    for (const part of this.parts()) part.restore(this.#slot);
  }

  /** Takes over the state of rank 0 and saves it. Collective. run() does this where it is needed. */
  async sync(): Promise<void> {
    const others = Array.from({ length: size() }, (_, each) => each).slice(1);
    await this.#syncFrom({ root: 0, lacking: others });
  }

  /**
   * Calls this function whenever ranks have come or gone, before the state is synchronized: to change a learning rate, say. Returns a
   * function that ends it.
   */
  onReset(callback: (reset: Reset) => void | Promise<void>): () => void {
    if (typeof callback !== 'function') {
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        `onReset() takes a function, not ${describe(callback)}.`,
      );
    }
    const entry = { call: callback };
    this.#callbacks.add(entry);
    return () => void this.#callbacks.delete(entry);
  }

  /** onReset() of several functions, as in Python Horovod. */
  registerResetCallbacks(callbacks: readonly (() => void | Promise<void>)[]): void {
    for (const callback of callbacks) this.onReset(callback);
  }

  /** What the state is made of: the same parts, in the same order, on all ranks and at every call. */
  protected abstract parts(): readonly StatePart[];

  get #mirrors(): Mirroring | undefined {
    this.#mirroring ??= { of: Mirroring.of(this.parts()) };
    return this.#mirroring.of;
  }

  #save(): boolean {
    const parts = this.parts();
    for (const part of parts) if (part.canSave?.() === false) return false;
    this.#saveAs(parts, this.#commits + 1);
    this.#runner?.saved();
    return true;
  }

  #saveAs(parts: readonly StatePart[], commit: number): void {
    const slot = this.#mirrors?.slotForNext() ?? 0;
    for (const part of parts) part.save(slot);
    this.#mirrors?.saved(slot, commit, this.#steps?.step ?? 0);
    this.#slot = slot;
    this.#hasSaved = true;
    this.#commits = commit;
  }

  /** What is to be given to ranks that stay. A number of its own: others may be lost before they have saved it, too. */
  #saveShards(): boolean {
    if (this.#mirrors === undefined) return false;
    this.#saveAs(this.parts(), this.#commits + 1);
    return true;
  }

  #goBackTo({ version }: ElectedShards): number | undefined {
    if (this.#isNewcomer || this.#mirrors === undefined) return undefined;
    const { slot, step } = this.#mirrors.versions.goBackTo(version);
    this.#slot = slot;
    this.#commits = version.commit;
    this.restore();
    return step;
  }

  async #syncFrom({ root, lacking, shards, place, steps }: Source): Promise<void> {
    this.#steps = steps ?? this.#steps;
    const parts = this.parts();
    const plan = {
      root,
      lacking,
      isNewcomer: this.#isNewcomer,
      shards: shards === undefined ? undefined : this.#shardPlan(shards),
    };
    const commit = await broadcastObject(this.#commits, root, { name: 'elastic.sync' });
    for (const part of parts) await part.sync(root, plan);
    // Until here a failure leaves what was saved before: the root may be lost with half of its state sent.
    if (place !== undefined) this.#mirrors?.enter(place);
    this.#saveAs(parts, commit);
    this.#isNewcomer = false;
    if (place !== undefined) await this.#mirrors?.first(this.#slot, commit);
  }

  #shardPlan({ version, holders }: ElectedShards): ShardPlan {
    const own = this.#mirrors?.versions
      .list()
      .find(({ commit, generation }) => commit === version.commit && generation === version.generation);
    return { slot: this.#slot, holders, own: this.#isNewcomer ? undefined : own?.shards[0] };
  }

  #digest(): string {
    const hash = createHash('sha256');
    for (const part of this.parts()) hash.update(`${part.digest?.() ?? ''}\n`);
    return hash.digest('hex');
  }

  async #callResets(reset: Reset): Promise<void> {
    for (const { call } of [...this.#callbacks]) await call(reset);
  }
}
