// Who is awaited by all others, from their status pages.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { awaitedRank } from './process-watch.ts';

const page = (rank: number, ...missing: number[]) => ({
  rank,
  pending: missing.length === 0 ? [] : [{ label: 'allreduce', waitedMs: 1000, missing }],
});

test('the rank that is missing in a collective of every other is awaited', () => {
  assert.equal(awaitedRank([page(0, 4), page(2, 4), page(4)]), 4);
  assert.equal(awaitedRank([page(0, 2, 4), page(2), page(4)]), undefined);
  assert.equal(awaitedRank([page(0, 2, 4), page(2, 4), page(4)]), 4);
});

test('nobody is, if some do not wait, wait for each other, or are alone', () => {
  assert.equal(awaitedRank([page(0), page(1), page(2)]), undefined);
  assert.equal(awaitedRank([page(0, 1), page(1, 0), page(2, 0)]), undefined);
  assert.equal(awaitedRank([page(3)]), undefined);
  assert.equal(awaitedRank([]), undefined);
});

test('a rank that has left waits for nobody, and nobody for it', () => {
  assert.equal(awaitedRank([page(0, 1), page(1), { ...page(2), hasLeft: true }]), 1);
});
