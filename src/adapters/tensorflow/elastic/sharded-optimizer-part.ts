// An optimizer with shardOptimizerState as a part of a state: each rank keeps its shard by reference, as other optimizers are kept,
// and copies of other ranks' shards (optimizer/sharded/mirror.ts).

import { createHash } from 'node:crypto';
import * as tf from '@tensorflow/tfjs';
import type { ShardedPart, SyncPlan } from '../../../elastic/runner.ts';
import { bytesOf } from '../../../tensor/tensor.ts';
import { run, runSync } from '../../both-forms.ts';
import type { Fields } from '../accumulators.ts';
import type { Shards } from '../optimizer/sharded/mirror.ts';
import { broadcastOptimizerNumbers, numbersOf } from '../optimizer-state.ts';
import { readTensor } from '../tensor-access.ts';
import { OptimizerPart } from './optimizer-part.ts';

export class ShardedOptimizerPart extends OptimizerPart implements ShardedPart {
  readonly mirrorEvery: number | undefined;
  readonly #shards: Shards;

  constructor(
    optimizer: tf.Optimizer,
    variables: readonly tf.Variable[],
    shards: Shards,
    mirrorEvery: number | undefined,
  ) {
    super(optimizer, variables);
    this.#shards = shards;
    this.mirrorEvery = mirrorEvery;
  }

  get reductions(): number {
    return this.#shards.reductions;
  }

  override save(slot = 0): void {
    super.save(slot);
    this.#shards.save(slot);
  }

  override restore(slot = 0): void {
    super.restore(slot);
    this.#shards.restore(slot);
  }

  override forget(slot: number): void {
    super.forget(slot);
    this.#shards.forget(slot);
  }

  override async sync(root: number, plan: SyncPlan): Promise<void> {
    // Before the first generation nobody has a shard, and in jobs that are not elastic everybody has its own.
    if (plan.shards === undefined) return super.sync(root, plan);
    this.abandonStep();
    if (plan.lacking.length > 0) await broadcastOptimizerNumbers(this.optimizer, root);
    await this.#shards.reshard(root, plan.shards, this.variables);
  }

  async mirror(slot: number, holders: readonly (readonly number[])[]): Promise<void> {
    await run(this.#shards.mirror(slot, holders));
  }

  mirrorSync(slot: number, holders: readonly (readonly number[])[]): void {
    runSync(this.#shards.mirror(slot, holders));
  }

  shardDigests(slot: number): Readonly<Record<string, string>> {
    return this.#shards.digests(slot);
  }

  /** What every rank has: the accumulators are in shardDigests(). */
  override digest(): string {
    const hash = createHash('sha256').update(JSON.stringify(numbersOf(this.optimizer)));
    for (const [field, value] of Object.entries(this.optimizer as unknown as Fields)) {
      if (value instanceof tf.Variable) hash.update(field).update(bytesOf(readTensor(value)));
    }
    return hash.digest('hex');
  }
}
