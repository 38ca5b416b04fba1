// Who is connected with whom: tables of hosts and connections.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layoutOf } from './lanes.ts';

test('in flat groups all are connected with all', () => {
  assert.deepEqual(layoutOf([0, 0, 1], 1, false), { local: [0, 1], lane: [0, 1, 2] });
});

test('each lane is connected with the same lane of the other hosts', () => {
  assert.deepEqual(layoutOf([0, 0, 1, 1], 1, true), { local: [0, 1], lane: [1, 3] });
  assert.deepEqual(layoutOf([0, 1, 0, 1, 2, 2], 3, true), { local: [1, 3], lane: [2, 3, 5] });
});

test('the smallest host decides how many lanes there are', () => {
  const hosts = [0, 1, 1, 1];
  assert.deepEqual(layoutOf(hosts, 0, true).lane, [0, 1]);
  assert.deepEqual(layoutOf(hosts, 1, true).lane, [0, 1]);
  assert.deepEqual(layoutOf(hosts, 2, true), { local: [1, 2, 3], lane: [] });
});
