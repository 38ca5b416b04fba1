// Shards of an optimizer's state on their way between the ranks of an elastic job: copies for other ranks, and what changes places when
// the shards are cut anew. One alltoall each.

import { alltoall, alltoallSync } from '../../operations/collectives.ts';
import { type BothForms, wait } from '../both-forms.ts';
import type { AdapterContext } from '../context.ts';
import { type Bounds, boundsOf } from './bounds.ts';
import { reshard, type Transfer } from './reshard.ts';

/** Values of one shard, by field: an optimizer may keep several numbers for each element. */
export interface ShardValues {
  readonly values: readonly Float32Array[];
}

/**
 * Collective: sends `own` to the ranks that `holders` has for this rank. Returns what came, by the rank that sent it; ranks that sent
 * nothing are left out.
 */
export function* sendShards(
  context: AdapterContext,
  own: Float32Array,
  holders: readonly (readonly number[])[],
): BothForms<Map<number, Float32Array>> {
  const { rank, size } = context.world;
  const receivers = holders[rank] ?? [];
  const splits = Array.from({ length: size }, (_, other) => (receivers.includes(other) ? own.length : 0));
  const data = receivers.length === 1 ? own : repeated(own, receivers.length);
  const options = { splits, name: 'horovod.elastic.mirror.shards' };
  const { output, receivedSplits } = yield* wait(
    () => alltoallSync(context, data, options),
    () => alltoall(context, data, options),
  );
  const received = new Map<number, Float32Array>();
  let at = 0;
  receivedSplits.forEach((length, shard) => {
    if (length > 0) received.set(shard, output.slice(at, at + length));
    at += length;
  });
  return received;
}

export interface Resharding {
  /** Elements of the vector. */
  readonly total: number;
  readonly fields: number;
  /** For each old shard, the ranks that have it. */
  readonly holders: readonly (readonly number[])[];
  /** How the vector is cut, then and now. */
  readonly bounds?: Bounds;
}

/** Collective: cuts a vector anew. `held`: the old shards that this rank has. Returns its new shard, by field. */
export async function reshardTogether(
  context: AdapterContext,
  held: ReadonlyMap<number, ShardValues>,
  { total, fields, holders, bounds = boundsOf }: Resharding,
): Promise<Float32Array[]> {
  const { rank, size } = context.world;
  const transfers = reshard(total, holders, size, bounds);
  const partOf = ({ shard, begin, end }: Transfer, field: number) => {
    const from = bounds(total, shard, holders.length).begin;
    return held.get(shard)?.values[field]?.subarray(begin - from, end - from) ?? new Float32Array(0);
  };
  const lengthOf = ({ begin, end }: Transfer) => (end - begin) * fields;
  const splits = new Array<number>(size).fill(0);
  const sent = transfers.filter(({ from, to }) => from === rank && to !== rank);
  for (const transfer of sent) splits[transfer.to] = (splits[transfer.to] as number) + lengthOf(transfer);
  const data = new Float32Array(splits.reduce((sum, length) => sum + length, 0));
  let at = 0;
  // By receiver, as reshard() has them.
  for (const transfer of sent) {
    for (let field = 0; field < fields; field++) {
      data.set(partOf(transfer, field), at);
      at += transfer.end - transfer.begin;
    }
  }
  const options = { splits, name: 'horovod.elastic.reshard.shards' };
  const { output, receivedSplits } = await alltoall(context, data, options);
  const { begin: start, end } = bounds(total, rank, size);
  const values = Array.from({ length: fields }, () => new Float32Array(end - start));
  // Where the elements of each sender begin.
  const places: number[] = [];
  receivedSplits.reduce((sum, length, from) => {
    places[from] = sum;
    return sum + length;
  }, 0);
  for (const transfer of transfers.filter(({ to }) => to === rank)) {
    for (let field = 0; field < fields; field++) {
      const length = transfer.end - transfer.begin;
      const place = places[transfer.from] as number;
      const isOwn = transfer.from === rank;
      const part = isOwn ? partOf(transfer, field) : output.subarray(place, place + length);
      values[field]?.set(part, transfer.begin - start);
      if (!isOwn) places[transfer.from] = place + length;
    }
  }
  return values;
}

function repeated(values: Float32Array, times: number): Float32Array {
  const all = new Float32Array(values.length * times);
  for (let i = 0; i < times; i++) all.set(values, i * values.length);
  return all;
}
