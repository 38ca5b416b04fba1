// Shares and rounds, as tables and for all small epochs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { areRanges, contains, countOf, excluding, including, type Ranges } from './ranges.ts';
import { dealRounds, mayHaveMore, quotaFor } from './rounds.ts';

test('what the consumers do not divide evenly is repeated, dropped or kept', () => {
  assert.deepEqual(quotaFor(7, 3, 'pad'), { perConsumer: 3, full: 3, repeats: 2 });
  assert.deepEqual(quotaFor(7, 3, 'exact'), { perConsumer: 3, full: 3, repeats: 2 });
  assert.deepEqual(quotaFor(7, 3, 'drop'), { perConsumer: 2, full: 3, repeats: 0 });
  assert.deepEqual(quotaFor(7, 3, 'keep'), { perConsumer: 3, full: 1, repeats: 0 });
  assert.deepEqual(quotaFor(6, 3, 'keep'), { perConsumer: 2, full: 3, repeats: 0 });
  assert.deepEqual(quotaFor(0, 3, 'pad'), { perConsumer: 0, full: 3, repeats: 0 });
  // One consumer had 4 before it was known that there are only 7.
  assert.deepEqual(quotaFor(7, 3, 'drop', 4), { perConsumer: 4, full: 3, repeats: 5 });
});

test('with keep, only as many consumers as there are batches left over get one more', () => {
  const quota = quotaFor(7, 3, 'keep');
  assert.equal(mayHaveMore(quota, [2, 2, 2], 0), true);
  assert.equal(mayHaveMore(quota, [2, 3, 2], 0), false);
  assert.equal(mayHaveMore(quota, [1, 3, 2], 0), true);
});

test('a round is of one group where it can be, and the ends of groups come last', () => {
  const deal = dealRounds([5, 4], [[], []], 2, 'pad');
  const order = [0, 1].flatMap((group) =>
    Array.from({ length: 5 }, (_, ordinal) => deal.placeOf(group, ordinal)).map((place) =>
      place === undefined ? '-' : `${place.round}:${place.consumer}`,
    ),
  );
  assert.deepEqual(order, ['0:0', '0:1', '2:0', '2:1', '4:0', '1:0', '1:1', '3:0', '3:1', '-']);
  assert.deepEqual(deal.placeOf(2, 0), { round: 4, consumer: 1 });
  assert.equal(deal.rounds, 5);
});

test('rounds that are dealt anew behind any prefix of rounds are the same as before', () => {
  const epochs = fc.record({
    lengths: fc.array(fc.nat(9), { minLength: 1, maxLength: 4 }),
    consumers: fc.integer({ min: 1, max: 4 }),
    prefix: fc.nat(20),
  });
  fc.assert(
    fc.property(epochs, ({ lengths, consumers, prefix }) => {
      const whole = dealRounds(lengths, [], consumers, 'pad');
      const all = lengths.flatMap((length, group) =>
        Array.from({ length }, (_, ordinal) => ({ group, ordinal, place: whole.placeOf(group, ordinal) })),
      );
      let done: Ranges[] = lengths.map(() => []);
      for (const { group, ordinal, place } of all) {
        assert.ok(place !== undefined && place.round < whole.rounds);
        if (place.round < prefix)
          done = done.map((ranges, each) => (each === group ? including(ranges, ordinal) : ranges));
      }
      const rest = dealRounds(lengths, done, consumers, 'pad');
      for (const { group, ordinal, place } of all) {
        const expected =
          place === undefined || place.round < prefix ? undefined : { ...place, round: place.round - prefix };
        assert.deepEqual(rest.placeOf(group, ordinal), expected);
      }
    }),
  );
});

test('ranges are the sets that they stand for', () => {
  const changes = fc.array(fc.record({ value: fc.nat(12), isIn: fc.boolean() }));
  fc.assert(
    fc.property(changes, (list) => {
      let ranges: Ranges = [];
      const set = new Set<number>();
      for (const { value, isIn } of list) {
        ranges = isIn ? including(ranges, value) : excluding(ranges, value);
        if (isIn) set.add(value);
        else set.delete(value);
      }
      assert.ok(areRanges(ranges));
      assert.equal(countOf(ranges), set.size);
      for (let value = 0; value <= 12; value++) assert.equal(contains(ranges, value), set.has(value));
    }),
  );
});

test('what is no list of ranges is seen', () => {
  for (const wrong of [
    null,
    [1],
    [[1]],
    [[2, 1]],
    [[1, 1]],
    [
      [0, 2],
      [1, 3],
    ],
    [
      [0, 2],
      [2, 3],
    ],
    [[-1, 2]],
    [[0, 1.5]],
  ])
    assert.equal(areRanges(wrong), false, JSON.stringify(wrong));
  assert.equal(
    areRanges([
      [0, 2],
      [3, 4],
    ]),
    true,
  );
});
