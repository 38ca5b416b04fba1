// What a lossy compressor keeps for one optimizer (tensor/compression/), as it changes with the ranks of a job and with the
// commits of an elastic one. Shared by TensorFlow.js and jax-js.
//
// NOTE [Another number of ranks]. With Average the mean of the ranks' residuals counts, with Sum their sum. On another number
// of ranks every rank takes the same share of that, so what was not sent yet will be. In an elastic job each rank keeps its own
// residuals; with Average they are scaled to the new number of ranks. Those of lost ranks are lost, and new ranks have none.

import { createHash } from 'node:crypto';
import { newMemory } from '../operations/collectives/allreduce-compressed.ts';
import { broadcastObject } from '../operations/collectives.ts';
import type { ProcessSet } from '../operations/process-set.ts';
import type { CompressionMemory } from '../tensor/compression/error-feedback.ts';
import { Average, type ReduceOp } from '../tensor/reduce-op.ts';
import { bytesOf } from '../tensor/tensor.ts';
import { type AdapterContext, currentContext } from './context.ts';

export interface ResidualRules {
  readonly what: string;
  readonly op: ReduceOp;
  readonly processSet: ProcessSet | undefined;
}

/** What a commit keeps of a tensor. */
interface Kept {
  readonly residual: Float32Array | undefined;
  readonly shared: ReadonlyMap<string, Float32Array>;
}

/** What is the same on all ranks, of the tensor at a place that all know. */
interface SharedState {
  readonly place: number;
  readonly shape: readonly number[];
  readonly shared: ReadonlyMap<string, Float32Array>;
}

export class Residuals {
  readonly #rules: ResidualRules;
  #memory: CompressionMemory | undefined;
  #context: AdapterContext | undefined;
  /** For how many ranks the residuals are, and whether that is known to be as many as there are. */
  #ranks: { residuals: number; isChecked: boolean } | undefined;
  /** By slot. */
  readonly #kept: ({ tensors: Map<string, Kept>; ranks: number | undefined } | undefined)[] = [];

  constructor(rules: ResidualRules) {
    this.#rules = rules;
  }

  /** Undefined until it is first used. */
  get memory(): CompressionMemory | undefined {
    return this.#memory;
  }

  /** The memory, scaled to the ranks of this context. */
  memoryIn(context: AdapterContext): CompressionMemory {
    this.#memory ??= newMemory(context);
    // New ranks may have joined, which do not have what the others share.
    if (this.#context !== undefined && this.#context !== context) this.#forgetShared(this.#memory);
    this.#enter(context);
    if (this.#ranks?.isChecked !== true) this.#scale(context, this.#memory);
    return this.#memory;
  }

  /** Keeps what there is now, for goBack(). */
  save(slot: number): void {
    const memory = this.#memory;
    const before = this.#kept[slot]?.tensors;
    const tensors = new Map<string, Kept>();
    for (const key of memory?.keys() ?? []) {
      const tensor = memory?.get(key);
      if (tensor === undefined) continue;
      const { residual, shared } = tensor;
      const old = before?.get(key)?.residual;
      const copy = old?.length === residual?.length ? old : residual?.slice();
      if (residual !== undefined) copy?.set(residual);
      // Compressors replace what ranks share, and never change it.
      tensors.set(key, { residual: copy, shared: new Map(shared) });
    }
    this.#kept[slot] = { tensors, ranks: this.#ranks?.residuals };
  }

  /** Returns to what save() has kept. */
  goBack(slot: number): void {
    const [memory, kept] = [this.#memory, this.#kept[slot]];
    if (memory === undefined || kept === undefined) return;
    for (const key of memory.keys()) {
      const tensor = memory.get(key);
      const before = kept.tensors.get(key);
      if (before === undefined || tensor === undefined) {
        memory.delete(key);
        continue;
      }
      const { residual } = before;
      if (residual === undefined) tensor.residual = undefined;
      else {
        tensor.residual ??= new Float32Array(residual.length);
        tensor.residual.set(residual);
      }
      tensor.shared.clear();
      for (const [name, values] of before.shared) tensor.shared.set(name, values);
    }
    if (kept.ranks !== undefined) this.#ranks = { residuals: kept.ranks, isChecked: false };
  }

  forget(slot: number): void {
    this.#kept[slot] = undefined;
  }

  /**
   * Collective, in a new generation of an elastic job: what ranks share becomes the root's. `keys`: those of the tensors in
   * an order that all ranks know. Among some ranks only, it starts anew.
   */
  async sync(root: number, lacking: readonly number[], keys: readonly string[]): Promise<void> {
    const context = currentContext();
    if (this.#rules.processSet !== undefined && this.#rules.processSet.id !== 0) return;
    if (lacking.length > 0) {
      const own = this.#sharedBy(keys);
      const states = await broadcastObject(context, own, root, { name: 'horovod.elastic.compression' });
      if (context.world.rank !== root) this.#take(context, states, keys);
    }
    this.#enter(context);
  }

  /** Of what must be equal on all ranks. */
  digest(keys: readonly string[]): string {
    const hash = createHash('sha256');
    for (const { place, shared } of this.#sharedBy(keys)) {
      for (const [name, values] of [...shared].sort(([a], [b]) => (a < b ? -1 : 1)))
        hash.update(`${place} ${name}`).update(bytesOf(values));
    }
    return hash.digest('hex');
  }

  #sharedBy(keys: readonly string[]): SharedState[] {
    return keys.flatMap((key, place) => {
      const tensor = this.#memory?.get(key);
      return tensor === undefined || tensor.shared.size === 0
        ? []
        : [{ place, shape: tensor.shape, shared: tensor.shared }];
    });
  }

  #take(context: AdapterContext, states: readonly SharedState[], keys: readonly string[]): void {
    this.#memory ??= newMemory(context);
    this.#forgetShared(this.#memory);
    for (const { place, shape, shared } of states) {
      // A residual is made when it is first needed.
      const tensor = this.#memory.of(keys[place] as string, shape, false);
      for (const [name, values] of shared) tensor.shared.set(name, values);
    }
  }

  #enter(context: AdapterContext): void {
    if (this.#context === context) return;
    this.#context = context;
    if (this.#ranks !== undefined) this.#ranks.isChecked = false;
  }

  /** See NOTE [Another number of ranks]. */
  #scale(context: AdapterContext, memory: CompressionMemory): void {
    const { op, processSet, what } = this.#rules;
    const ranks = context.membersOf(processSet, what).ranks.length;
    const factor = ranks / (this.#ranks?.residuals ?? ranks);
    if (op === Average && factor !== 1) {
      for (const key of memory.keys()) {
        const residual = memory.get(key)?.residual;
        residual?.forEach((value, i) => {
          residual[i] = value * factor;
        });
      }
    }
    this.#ranks = { residuals: ranks, isChecked: true };
  }

  #forgetShared(memory: CompressionMemory): void {
    for (const key of memory.keys()) memory.get(key)?.shared.clear();
  }
}
