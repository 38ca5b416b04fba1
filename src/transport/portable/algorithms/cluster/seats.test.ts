import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { seatsOf, wardsOnOwnHost } from './seats.ts';

test('members of two equal hosts, dealt in turns, are each other’s partners', () => {
  const seats = seatsOf([7, 3, 7, 3], 3);
  assert.deepEqual(seats.hosts, [
    [0, 2],
    [1, 3],
  ]);
  assert.deepEqual(seats.local, [1, 3]);
  assert.deepEqual(seats.remote, [0, 2]);
  assert.deepEqual(seats.wards, [3, 2]);
  assert.deepEqual(seats.partners, [2]);
  assert.equal(seats.maxWards, 2);
});

test('one alone on its host handles the shares of all members of a larger one', () => {
  assert.deepEqual(seatsOf([0, 0, 0, 1], 3).wards, [3, 0, 1, 2]);
  assert.deepEqual(seatsOf([0, 0, 0, 1], 0).wards, [0, 3]);
  assert.deepEqual(seatsOf([0, 0, 0, 1], 1).wards, [1]);
  assert.deepEqual(seatsOf([0, 0, 0, 1], 2).partners, [3]);
});

test('on every host exactly one member handles each share, and knows its partners by it', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(4), { minLength: 1, maxLength: 12 }), (hosts) => {
      const all = hosts.map((_, index) => seatsOf(hosts, index));
      for (const { hosts: groups } of all) {
        for (const members of groups) {
          const wards = members.flatMap((member) => all[member]?.wards ?? []);
          assert.deepEqual(
            wards.sort((a, b) => a - b),
            hosts.map((_, index) => index),
          );
        }
      }
      for (const seats of all) {
        for (const partner of seats.partners) assert.ok(all[partner]?.wards.includes(seats.index));
        for (const member of seats.local) {
          const expected = [...(all[member]?.wards ?? [])].sort((a, b) => a - b);
          assert.deepEqual(wardsOnOwnHost(seats, member), expected);
        }
      }
    }),
  );
});
