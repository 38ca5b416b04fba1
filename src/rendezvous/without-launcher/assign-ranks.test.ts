import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assignRanks } from './assign-ranks.ts';

const ranksOf = (hosts: string): number[] =>
  assignRanks(hosts.split(' ').map((host) => ({ host, machine: `machine ${host}` })));

test('the first is rank 0, its neighbours follow, then machine by machine', () => {
  assert.deepEqual(ranksOf('b a b a b'), [0, 3, 1, 4, 2]);
});

test('machines go by name, numbers as numbers', () => {
  assert.deepEqual(ranksOf('host3 host10 host2 host1'), [0, 3, 2, 1]);
});

test('machines of the same name stay apart, in the order in which they came', () => {
  const comers = ['x', 'y', 'x', 'y'].map((machine) => ({ host: 'localhost', machine }));
  assert.deepEqual(assignRanks(comers), [0, 2, 1, 3]);
});

test('one alone is rank 0', () => {
  assert.deepEqual(ranksOf('a'), [0]);
});
