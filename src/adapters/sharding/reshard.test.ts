import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Bounds, boundsOf, paddedBounds } from './bounds.ts';
import { reshard } from './reshard.ts';

/** All ways in which `shards` shards can be held by ranks of `survivors`, each by one or two of them. */
function* holdings(shards: number, survivors: number): Generator<number[][]> {
  const ranks = Array.from({ length: survivors }, (_, rank) => rank);
  const choices = ranks.flatMap((a) => [[a], ...ranks.filter((b) => b !== a).map((b) => [a, b])]);
  const counts = new Array<number>(shards).fill(0);
  for (;;) {
    yield counts.map((choice) => choices[choice] as number[]);
    let at = 0;
    while (at < shards && ++(counts[at] as number[][number]) === choices.length) counts[at++] = 0;
    if (at === shards) return;
  }
}

test('every rank gets exactly its new shard, from ranks that have it: all layouts of up to 4 ranks to up to 4 ranks', () => {
  let layouts = 0;
  for (let shards = 1; shards <= 4; shards++) {
    for (let members = 1; members <= 4; members++) {
      // All old shards may be on fewer ranks than there will be; the others are new.
      for (let survivors = 1; survivors <= Math.min(members, shards); survivors++) {
        for (const holders of holdings(shards, survivors)) {
          for (const total of [0, 1, 3, 11]) {
            layouts++;
            for (const bounds of [boundsOf, paddedBounds]) check(total, holders, members, bounds);
          }
        }
      }
    }
  }
  assert.ok(layouts > 10_000, `${layouts} layouts`);
});

function check(
  total: number,
  holders: readonly (readonly number[])[],
  members: number,
  bounds: Bounds,
): void {
  const transfers = reshard(total, holders, members, bounds);
  for (let to = 0; to < members; to++) {
    const { begin, end } = bounds(total, to, members);
    let at = begin;
    for (const transfer of transfers.filter((each) => each.to === to)) {
      assert.equal(transfer.begin, at, 'the parts follow each other');
      at = transfer.end;
      const has = bounds(total, transfer.shard, holders.length);
      assert.ok(transfer.begin >= has.begin && transfer.end <= has.end, 'the elements are in that shard');
      const having = holders[transfer.shard] as readonly number[];
      assert.ok(having.includes(transfer.from), 'the sender has it');
      if (having.includes(to)) assert.equal(transfer.from, to, 'nobody is sent what it has');
    }
    assert.equal(at, end);
  }
}

test('without a change nothing travels', () => {
  for (const { from, to } of reshard(10, [[0], [1], [2]], 3)) assert.equal(from, to);
});

test('a shard that nobody has is an error', () => {
  assert.throws(() => reshard(4, [[0], []], 1), /nobody has shard 1/);
});
