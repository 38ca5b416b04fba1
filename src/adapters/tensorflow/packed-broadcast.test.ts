import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { packsOf, type SlotDtype } from './packed-broadcast.ts';
import { firstDifference } from './variable-lists.ts';

const slot = (name: string, shape: number[], dtype: SlotDtype = 'float32') => ({ name, shape, dtype });

describe('packs of a broadcast', () => {
  const names = (packs: { name: string }[][]) => packs.map((pack) => pack.map(({ name }) => name).join(''));

  test('tensors of one dtype travel together, in order', () => {
    const slots = [
      slot('a', [2]),
      slot('b', [], 'int32'),
      slot('c', [3, 3]),
      slot('d', [1], 'bool'),
      slot('e', []),
    ];
    assert.deepEqual(names(packsOf(slots)), ['ace', 'b', 'd']);
  });

  test('a pack ends before it would pass the limit; a larger tensor goes alone', () => {
    const slots = [slot('a', [2]), slot('b', [2]), slot('c', [100]), slot('d', [1]), slot('e', [3], 'int32')];
    assert.deepEqual(names(packsOf(slots, 16)), ['ab', 'c', 'd', 'e']);
  });

  test('empty tensors do not travel', () => {
    assert.deepEqual(packsOf([slot('a', [0, 5])]), []);
    assert.deepEqual(packsOf([]), []);
  });
});

describe('the first difference between the variables of ranks', () => {
  const kernel = slot('kernel', [3, 4]);
  const bias = slot('bias', [4]);

  test('there is none if shapes and dtypes agree, whatever the names', () => {
    assert.equal(
      firstDifference(
        [
          [kernel, bias],
          [slot('k2', [3, 4]), bias],
        ],
        [0, 1],
      ),
      undefined,
    );
    assert.equal(firstDifference([[], []], [0, 1]), undefined);
    assert.equal(firstDifference([[kernel]], [0]), undefined);
  });

  for (const [title, other, text] of [
    [
      'a shape',
      [kernel, slot('bias', [5])],
      /variable 2 is "bias", float32 \[4\], on rank 2 and "bias", float32 \[5\], on rank 7/,
    ],
    ['a number of dimensions', [slot('kernel', [3, 4, 1]), bias], /variable 1 .*\[3, 4, 1\]/],
    ['a dtype', [kernel, slot('bias', [4], 'int32')], /variable 2 .*float32.*int32/],
    [
      'a variable too few',
      [kernel],
      /variable 2 is "bias".* on rank 2 and missing \(there are 1\) on rank 7/,
    ],
    [
      'a variable too many',
      [kernel, bias, slot('more', [])],
      /variable 3 is missing \(there are 2\) on rank 2 and "more"/,
    ],
  ] as const) {
    test(`is ${title}, with the names of both`, () => {
      const difference = firstDifference([[kernel, bias], [kernel, bias], other], [2, 5, 7]);
      assert.match(difference?.text ?? '', text);
      assert.equal(difference?.rank, 7);
    });
  }
});
