import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { bucketsOf } from './buckets.ts';

test('buckets are equally wide, and the last one contains the largest value', () => {
  assert.deepEqual(bucketsOf([0, 1, 1, 2, 3, 4], 4), [
    { left: 0, right: 1, count: 1 },
    { left: 1, right: 2, count: 2 },
    { left: 2, right: 3, count: 1 },
    { left: 3, right: 4, count: 2 },
  ]);
});

test('equal values have one bucket around them, no values none', () => {
  assert.deepEqual(bucketsOf([3, 3], 30), [{ left: 2.5, right: 3.5, count: 2 }]);
  assert.deepEqual(bucketsOf([], 30), []);
});

test('values that are not finite are left out', () => {
  assert.deepEqual(bucketsOf([Number.NaN, 1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY], 30), [
    { left: 0.5, right: 1.5, count: 1 },
  ]);
});

test('every finite value is counted once, in a bucket with finite edges, whatever the values are', () => {
  const values = fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 1 });
  fc.assert(
    fc.property(values, fc.integer({ min: 1, max: 50 }), (values, buckets) => {
      const found = bucketsOf(values, buckets);
      assert.equal(
        found.reduce((sum, { count }) => sum + count, 0),
        values.length,
      );
      assert.ok(found.every(({ left, right }) => Number.isFinite(left) && Number.isFinite(right)));
    }),
  );
});
