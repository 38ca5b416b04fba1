import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { planBuckets } from './bucket-plan.ts';

const places = (count: number) => Array.from({ length: count }, (_, i) => i);

describe('buckets by size', () => {
  test('are filled in the order in which gradients are finished', () => {
    const buckets = planBuckets({
      bytes: [4, 4, 4, 4],
      order: [3, 2, 1, 0],
      groups: undefined,
      bucketBytes: 8,
    });
    assert.deepEqual(buckets, [
      [3, 2],
      [1, 0],
    ]);
  });

  test('a gradient larger than a bucket travels alone', () => {
    const buckets = planBuckets({
      bytes: [1, 100, 1, 1],
      order: [0, 1, 2, 3],
      groups: undefined,
      bucketBytes: 8,
    });
    assert.deepEqual(buckets, [[0], [1], [2, 3]]);
  });

  test('without gradients there are none', () => {
    assert.deepEqual(planBuckets({ bytes: [1], order: [], groups: undefined, bucketBytes: 8 }), []);
  });

  test('hold every gradient once, in order, and no more than they may', () => {
    const sizes = fc.array(fc.nat(50), { maxLength: 30 });
    fc.assert(
      fc.property(sizes, fc.integer({ min: 1, max: 100 }), (bytes, bucketBytes) => {
        const order = places(bytes.length).reverse();
        const buckets = planBuckets({ bytes, order, groups: undefined, bucketBytes });
        assert.deepEqual(buckets.flat(), order);
        for (const bucket of buckets) {
          const total = bucket.reduce((sum, place) => sum + (bytes[place] as number), 0);
          assert.ok(bucket.length === 1 || total <= bucketBytes);
        }
      }),
    );
  });
});

describe('groups', () => {
  const plan = (groups: number | number[][], order = [4, 3, 2, 1, 0]) =>
    planBuckets({ bytes: [1, 1, 1, 1, 1], order, groups, bucketBytes: 1 });

  test('a number splits the variables in order, the first groups longer', () => {
    assert.deepEqual(plan(2), [
      [0, 1, 2],
      [3, 4],
    ]);
    assert.deepEqual(plan(1), [[0, 1, 2, 3, 4]]);
  });

  test('more groups than variables are as many as variables', () => {
    assert.deepEqual(plan(9), [[0], [1], [2], [3], [4]]);
  });

  test('lists stay together, others travel alone, and whoever is finished first goes first', () => {
    assert.deepEqual(plan([[0, 4], [1]]), [[3], [2], [1], [0, 4]]);
  });

  test('variables without gradients are left out of their lists', () => {
    assert.deepEqual(plan([[0, 4], [1]], [4, 3]), [[4], [3]]);
  });
});
