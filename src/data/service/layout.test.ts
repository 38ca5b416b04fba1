// The groups of a data service divide an epoch: every sample is in one batch, and only the last batch is small.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type Counted, groupCount, groupLengths, type Layout, placeOfGroup, positionsOf } from './layout.ts';

const cases = fc.record({
  length: fc.integer({ min: 0, max: 700 }),
  batchSize: fc.integer({ min: 1, max: 40 }),
  lanes: fc.integer({ min: 1, max: 70 }),
  groups: fc.integer({ min: 1, max: 20 }),
  isByLane: fc.boolean(),
  copies: fc.integer({ min: 1, max: 3 }),
  dropRemainder: fc.boolean(),
});

const batchesOf = (layout: Layout, counted: Counted) =>
  groupLengths(layout, counted).map((length, group) =>
    Array.from({ length }, (_, ordinal) => positionsOf(group, ordinal, layout, counted)),
  );

describe('layout', () => {
  test('every sample of each copy is in one batch, but for those of a remainder that is dropped', () => {
    fc.assert(
      fc.property(cases, ({ length, batchSize, dropRemainder, ...rest }) => {
        const layout = { ...rest, groups: Math.min(rest.groups, rest.lanes) };
        const counted = { length, batchSize, dropRemainder };
        const groups = batchesOf(layout, counted);
        assert.equal(groups.length, groupCount(layout));
        for (let copy = 0; copy < layout.copies; copy++) {
          const batches = groups.filter((_, group) => placeOfGroup(group, layout).copy === copy).flat();
          const small = batches.filter((batch) => batch.length < batchSize);
          assert.ok(small.length <= (dropRemainder ? 0 : 1), 'at most one batch is small');
          const samples = batches.flat().sort((a, b) => a - b);
          const used = dropRemainder ? length - (length % batchSize) : length;
          assert.equal(samples.length, used);
          assert.equal(new Set(samples).size, used);
          assert.ok(samples.every((position) => position >= 0 && position < length));
        }
      }),
      { seed: 1, numRuns: 300 },
    );
  });

  test('without lanes, batches are those of one rank', () => {
    const layout = { lanes: 1, groups: 3, isByLane: false, copies: 1 };
    const groups = batchesOf(layout, { length: 10, batchSize: 2, dropRemainder: false });
    assert.deepEqual(groups, [
      [
        [0, 1],
        [6, 7],
      ],
      [
        [2, 3],
        [8, 9],
      ],
      [[4, 5]],
      [],
    ]);
  });
});
