// Which places are on one machine, and what it is called.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planSlots } from '../hosts/plan-slots.ts';
import { groupByMachine } from './machines.ts';

test('places are grouped by machine, that of the lowest place first', () => {
  const facts = [
    { place: 3, machine: 'a', hostname: 'w1' },
    { place: 0, machine: 'b', hostname: 'w2' },
    { place: 1, machine: 'a', hostname: 'w1' },
    { place: 2, machine: 'b', hostname: 'w2' },
  ];
  const machines = groupByMachine(facts, new Map());
  assert.deepEqual(machines, [
    { name: 'w2', places: [0, 2] },
    { name: 'w1', places: [1, 3] },
  ]);
  const slots = planSlots(
    4,
    machines.map(({ name, places }) => ({ name, slots: places.length })),
  );
  assert.deepEqual(
    slots.map(({ hostname, localRank, crossRank }) => [hostname, localRank, crossRank]),
    [
      ['w2', 0, 0],
      ['w2', 1, 0],
      ['w1', 0, 1],
      ['w1', 1, 1],
    ],
  );
});

test('containers of one machine have names of their own, which they keep', () => {
  const names = new Map<string, string>();
  const first = [
    { place: 0, machine: 'boot pid:1', hostname: 'node' },
    { place: 1, machine: 'boot pid:2', hostname: 'node' },
  ];
  const namesOf = (facts: typeof first) => groupByMachine(facts, names).map(({ name }) => name);
  assert.deepEqual(namesOf(first), ['node', 'node-2']);
  assert.deepEqual(namesOf([...first.slice(1), { place: 2, machine: 'boot pid:3', hostname: 'node' }]), [
    'node-2',
    'node-3',
  ]);
});
