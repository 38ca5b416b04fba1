import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layOut } from './layout.ts';

/** Which elements of which variable each rank has, as [place, from, to]. */
const told = (sizes: readonly number[], members: number) =>
  Array.from({ length: members }, (_, index) =>
    layOut(sizes, index, members).pieces.map(({ place, from, to }) => [place, from, to]),
  );

test('every element is in exactly one shard, and shards differ by one element at most', () => {
  for (const sizes of [[7], [1, 1, 1], [3, 0, 5, 1], [100, 3, 17, 1000], [0], []]) {
    for (const members of [1, 2, 3, 5, 16]) {
      const all = Array.from({ length: members }, (_, index) => layOut(sizes, index, members));
      const seen = sizes.map((size) => new Array<number>(size).fill(0));
      for (const { pieces, length } of all) {
        let filled = 0;
        for (const { place, from, to, at } of pieces) {
          assert.equal(at, filled, 'pieces lie one after the other in the shard');
          filled += to - from;
          for (let i = from; i < to; i++) (seen[place] as number[])[i] = (seen[place]?.[i] ?? 0) + 1;
        }
        assert.equal(filled, length);
      }
      assert.ok(seen.flat().every((times) => times === 1));
      const lengths = all.map(({ length }) => length);
      assert.ok(Math.max(...lengths) - Math.min(...lengths) <= 1, `${sizes} over ${members}: ${lengths}`);
      assert.deepEqual(
        lengths,
        [...lengths].sort((a, b) => b - a),
        'the first ranks have more, as in reducescatter()',
      );
    }
  }
});

test('a variable is cut where its shard ends', () => {
  assert.deepEqual(told([4, 3], 2), [[[0, 0, 4]], [[1, 0, 3]]]);
  assert.deepEqual(told([5, 4], 2), [[[0, 0, 5]], [[1, 0, 4]]]);
  assert.deepEqual(told([7, 2], 2), [
    [[0, 0, 5]],
    [
      [0, 5, 7],
      [1, 0, 2],
    ],
  ]);
  assert.deepEqual(told([2, 0, 1], 3), [[[0, 0, 1]], [[0, 1, 2]], [[2, 0, 1]]]);
});

test('with fewer elements than ranks the last ranks have none', () => {
  assert.deepEqual(told([1], 3), [[[0, 0, 1]], [], []]);
});
