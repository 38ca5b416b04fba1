// Trees of which some arrays are shards (shardOptimizerState): each rank keeps its own by reference, as other arrays are kept, and copies of
// those of other ranks. In a new generation the shards are cut anew for its ranks. docs/decisions/0024-mirrored-shards.md.

import { createHash } from 'node:crypto';
import type { ShardedPart, SyncPlan } from '../../../elastic/runner.ts';
import { HorovodError } from '../../../errors.ts';
import { allgatherObject } from '../../../operations/collectives.ts';
import { bytesOf } from '../../../tensor/tensor.ts';
import { type BothForms, run, runSync } from '../../both-forms.ts';
import { currentContext } from '../../context.ts';
import { paddedBounds, paddedLength } from '../../sharding/bounds.ts';
import { reshardTogether, type ShardValues, sendShards } from '../../sharding/travel.ts';
import { isArray, kindOf, makeArray, readArraySync } from '../arrays.ts';
import type { Cut, TreeShards } from '../tree-shards.ts';
import { type CountedArray, mapArrays, type Trees, TreesPart } from './trees-part.ts';

/** An array in the trees that is a shard: a field of it, for those who divide it. */
interface Field {
  readonly path: string;
  readonly array: CountedArray;
  readonly cut: Cut;
  readonly owner: TreeShards;
}

export class ShardedTreesPart extends TreesPart implements ShardedPart {
  readonly mirrorEvery: number | undefined;
  readonly #owners: readonly TreeShards[];
  /** Copies of other ranks' shards, by slot, then by shard. */
  readonly #mirrors: (Map<number, ShardValues> | undefined)[] = [];
  /** The whole state as this rank has made it: the first generation may fail before all ranks have their shards. */
  #initial: ShardValues | undefined;

  constructor(trees: Trees, owners: readonly TreeShards[], mirrorEvery: number | undefined) {
    super(trees);
    this.#owners = owners;
    this.mirrorEvery = mirrorEvery;
  }

  get reductions(): number {
    return this.#owners.reduce((sum, { reductions }) => sum + reductions, 0);
  }

  override save(slot = 0): void {
    super.save(slot);
    this.#mirrors[slot] = undefined;
  }

  override forget(slot: number): void {
    super.forget(slot);
    this.#mirrors[slot] = undefined;
  }

  override async sync(root: number, plan: SyncPlan): Promise<void> {
    await super.sync(root, plan);
    const context = currentContext();
    if (plan.shards !== undefined) {
      const { slot, holders, own } = plan.shards;
      const held = own === undefined ? [] : [[own, this.#own()] as const, ...(this.#mirrors[slot] ?? [])];
      await this.#reshard(holders, new Map(held));
    } else if (context.isElastic) {
      // Each rank has made the whole state for itself, and that of the root counts.
      this.#initial ??= this.#own();
      await this.#reshard([[root]], new Map(context.world.rank === root ? [[0, this.#initial]] : []));
    }
  }

  async mirror(slot: number, holders: readonly (readonly number[])[]): Promise<void> {
    await run(this.#mirror(slot, holders));
  }

  mirrorSync(slot: number, holders: readonly (readonly number[])[]): void {
    runSync(this.#mirror(slot, holders));
  }

  shardDigests(slot: number): Readonly<Record<string, string>> {
    const { rank, size } = currentContext().world;
    const shards = new Map([[rank, this.#own()], ...(this.#mirrors[slot] ?? [])]);
    return Object.fromEntries(
      [...shards].map(([shard, { values }]) => {
        const hash = createHash('sha256');
        for (const each of values) hash.update(bytesOf(each));
        return [`shard ${shard} of ${size}`, hash.digest('hex')];
      }),
    );
  }

  protected override shared(): Trees {
    return mapArrays(this.trees, (array) => (this.#ownerOf(array) === undefined ? array : null));
  }

  protected override merged(received: Trees, own: Trees): Trees {
    return this.#merged(received, own) as Trees;
  }

  /** Shards are this rank's own. */
  #merged(received: unknown, own: unknown): unknown {
    if (isArray(own)) return this.#ownerOf(own) === undefined ? received : own;
    if (Array.isArray(own))
      return own.map((each, i) => this.#merged((received as readonly unknown[])[i], each));
    if (typeof own !== 'object' || own === null) return received;
    const from = received as Readonly<Record<string, unknown>>;
    return Object.fromEntries(Object.entries(own).map(([key, each]) => [key, this.#merged(from[key], each)]));
  }

  #ownerOf(array: object): TreeShards | undefined {
    return this.#owners.find((owner) => owner.cutOf(array) !== undefined);
  }

  /** In the order of their paths, which is the same on all ranks. */
  #fields(): Field[] {
    const fields: Field[] = [];
    mapArrays(this.trees, (array, path) => {
      const owner = this.#ownerOf(array);
      const cut = owner?.cutOf(array);
      if (owner !== undefined && cut !== undefined) fields.push({ path, array, cut, owner });
      return array;
    });
    return fields.sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  /** This rank's shards, as they are now. */
  #own(): ShardValues {
    return { values: this.#fields().map(({ array }) => readArraySync(array.ref).data as Float32Array) };
  }

  *#mirror(slot: number, holders: readonly (readonly number[])[]): BothForms<void> {
    const { values } = this.#own();
    const all = new Float32Array(values.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const each of values) {
      all.set(each, at);
      at += each.length;
    }
    const received = yield* sendShards(currentContext(), all, holders);
    this.#initial = undefined;
    this.#mirrors[slot] = new Map([...received].map(([shard, theirs]) => [shard, splitLike(theirs, values)]));
  }

  /** `holders`: by shard as it was, the ranks that have it; `held`: what this rank has. */
  async #reshard(
    holders: readonly (readonly number[])[],
    held: ReadonlyMap<number, ShardValues>,
  ): Promise<void> {
    const context = currentContext();
    const { rank, size } = context.world;
    const fields = this.#fields();
    await checkSame(fields);
    const made = new Map<string, { readonly field: Field; readonly array: CountedArray }>();
    for (const [i, field] of fields.entries()) {
      const { total } = field.cut;
      const ofField = new Map(
        [...held].map(([shard, { values }]) => [shard, { values: [values[i] as Float32Array] }]),
      );
      const wanted = { total, fields: 1, holders, bounds: paddedBounds };
      const [values = new Float32Array(0)] = await reshardTogether(context, ofField, wanted);
      const data = new Float32Array(paddedLength(total, size));
      data.set(values);
      const tensor = { data, shape: [data.length], dtype: 'float32' } as const;
      made.set(field.path, { field, array: makeArray(kindOf(field.array), tensor) as CountedArray });
    }
    const replaced = mapArrays(this.trees, (array, path) => made.get(path)?.array ?? array);
    Object.assign(this.trees, replaced);
    for (const { field, array } of made.values()) {
      field.owner.note(array, { total: field.cut.total, index: rank, members: size });
      field.array.dispose();
    }
  }
}

/** All ranks must have the same shards before they travel. */
async function checkSame(fields: readonly Field[]): Promise<void> {
  const context = currentContext();
  const own = fields.map(({ path, cut }) => `${path} (${cut.total})`).join(', ');
  const all = await allgatherObject(context, own, { name: 'horovod.elastic.reshard' });
  const other = all.findIndex((each) => each !== all[0]);
  if (other < 0) return;
  throw new HorovodError(
    'ERR_HVD_MISMATCH',
    `JaxState: rank 0 has the sharded arrays ${all[0] || '(none)'}, and rank ${other} has ${all[other] || '(none)'}. Call init() of the ` +
      'optimizer before elastic.run(), and give its state to the JaxState in `trees`: ranks that join later need it, too.',
    { rank: other },
  );
}

function splitLike(all: Float32Array, like: readonly Float32Array[]): ShardValues {
  let at = 0;
  return {
    values: like.map(({ length }) => {
      at += length;
      return all.subarray(at - length, at);
    }),
  };
}
