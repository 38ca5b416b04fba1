// State: what a job goes back to when it has lost ranks, and what new ranks receive. It is made of parts (runner.ts). save()
// keeps it under a number, the *commit*; restore() goes back to it. While run() runs, commits are counted alike on all ranks: the
// highest commit that a survivor has is where the next generation starts.

import { createHash } from 'node:crypto';
import { broadcastObject } from '../context/default/default-collectives.ts';
import { size } from '../context/default/default-membership.ts';
import { HorovodError } from '../errors.ts';
import { describe } from '../tensor/tensor.ts';
import type { ElasticRunner, Reset, StatePart } from './runner.ts';

/** What run() sees of a state. */
export interface RunSide {
  /** The number of the last commit; −1 on a rank that has none yet. */
  readonly commits: number;
  attach(runner: ElasticRunner | undefined): void;
  /** This rank has none of the job's state: whatever it has will be replaced. */
  becomeNewcomer(): void;
  /** Collective: takes over the root's state, and saves it under the root's number when all of it has come. */
  syncFrom(root: number, lacking: readonly number[]): Promise<void>;
  /** Equal on all ranks that have the same state. */
  digest(): string;
  callResets(reset: Reset): Promise<void>;
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
  #runner: ElasticRunner | undefined;
  readonly #callbacks = new Set<{ readonly call: ResetCallback }>();

  constructor() {
    const state = this;
    sides.set(this, {
      get commits() {
        return state.#isNewcomer ? -1 : state.#commits;
      },
      attach: (runner) => {
        this.#runner = runner;
      },
      becomeNewcomer: () => {
        this.#isNewcomer = true;
      },
      syncFrom: (root, lacking) => this.#syncFrom(root, lacking),
      digest: () => this.#digest(),
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
    if (this.#save() && this.#runner?.isDue(this.#commits)) await this.checkHostUpdates();
  }

  /** The blocking form of commit(). */
  commitSync(): void {
    if (this.#save() && this.#runner?.isDue(this.#commits)) this.checkHostUpdatesSync();
  }

  /**
   * Throws ERR_HVD_HOSTS_UPDATED, on all ranks at once, if ranks are to join or leave. Let it pass: run() forms the job anew and
   * calls the training function again. Collective; does nothing outside of run().
   */
  async checkHostUpdates(): Promise<void> {
    await this.#runner?.check(this.#commits);
  }

  /** The blocking form of checkHostUpdates(). */
  checkHostUpdatesSync(): void {
    this.#runner?.checkSync(this.#commits);
  }

  /** commit() without the check. */
  save(): void {
    this.#save();
  }

  /** Goes back to the last commit. Before the first one there is nothing to go back to, and the state stays as it is. */
  restore(): void {
    if (!this.#hasSaved) return;
    for (const part of this.parts()) part.restore();
  }

  /** Takes over the state of rank 0 and saves it. Collective. run() does this where it is needed. */
  async sync(): Promise<void> {
    const others = Array.from({ length: size() }, (_, each) => each).slice(1);
    await this.#syncFrom(0, others);
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

  #save(): boolean {
    const parts = this.parts();
    if (parts.some((part) => part.canSave?.() === false)) return false;
    this.#saveAs(parts, this.#commits + 1);
    return true;
  }

  #saveAs(parts: readonly StatePart[], commit: number): void {
    for (const part of parts) part.save();
    this.#hasSaved = true;
    this.#commits = commit;
  }

  async #syncFrom(root: number, lacking: readonly number[]): Promise<void> {
    const parts = this.parts();
    const plan = { root, lacking, isNewcomer: this.#isNewcomer };
    const commit = await broadcastObject(this.#commits, root, { name: 'elastic.sync' });
    for (const part of parts) await part.sync(root, plan);
    // Until here a failure leaves what was saved before: the root may be lost with half of its state sent.
    this.#saveAs(parts, commit);
    this.#isNewcomer = false;
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
