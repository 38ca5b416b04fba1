// Who is connected with whom: tables of hosts and connections.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layoutOf } from './lanes.ts';

test('flat groups are connected all with all', () => {
  assert.deepEqual(layoutOf([0, 0, 1], 1, false), { local: [0, 1], peers: [0, 2] });
});

test('each lane is connected with the same lane of the other hosts', () => {
  assert.deepEqual(layoutOf([0, 0, 1, 1], 1, true), { local: [0, 1], peers: [3] });
  assert.deepEqual(layoutOf([0, 1, 0, 1, 2, 2], 3, true), { local: [1, 3], peers: [2, 5] });
});

test('the smallest host decides how many lanes there are', () => {
  const hosts = [0, 1, 1, 1];
  assert.deepEqual(layoutOf(hosts, 0, true).peers, [1]);
  assert.deepEqual(layoutOf(hosts, 1, true).peers, [0]);
  assert.deepEqual(layoutOf(hosts, 2, true), { local: [1, 2, 3], peers: [] });
});
