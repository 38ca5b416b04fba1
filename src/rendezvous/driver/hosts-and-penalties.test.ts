// Delays after failures, and the table of hosts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cooldownMs, isBlocked, noPenalty, punishHost, punishSlot } from './blacklist.ts';
import {
  findHost,
  freeSlot,
  type HostRecord,
  hostsToOpen,
  listHosts,
  slotFailed,
  usableHosts,
} from './host-table.ts';

const range = { minMs: 1000, maxMs: 60_000 };

test('a slot may be used again at once, then after 1, 2, 4 … s, up to the maximum', () => {
  let penalty = noPenalty;
  const delays = Array.from({ length: 9 }, () => {
    penalty = punishSlot(penalty, 100, range, 0);
    return penalty.until - 100;
  });
  assert.deepEqual(delays, [0, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
});

test('a host waits from the first time, with a random part (test_resurrecting_blacklisted_hosts_exponential_backoff)', () => {
  assert.equal(punishHost(noPenalty, 0, range, 0).until, 2000);
  assert.equal(punishHost(noPenalty, 0, range, 0.5).until, 2500);
  assert.equal(cooldownMs(range, 20, 0), 60_000);
});

test('a cooldown range of 0 0 means never again', () => {
  const never = { minMs: 0, maxMs: 0 };
  assert.equal(punishSlot(noPenalty, 0, never, 0.5).until, Number.POSITIVE_INFINITY);
  assert.equal(punishHost(noPenalty, 0, never, 0.5).until, Number.POSITIVE_INFINITY);
  assert.equal(isBlocked(noPenalty, 0), false);
});

test('hosts keep the order in which they were first seen (test_order_available_hosts)', () => {
  const table: HostRecord[] = [];
  listHosts(table, [
    { name: 'b', slots: 2 },
    { name: 'c', slots: 1 },
  ]);
  listHosts(table, [
    { name: 'a', slots: 4 },
    { name: 'c', slots: 3 },
  ]);
  listHosts(table, [
    { name: 'a', slots: 4 },
    { name: 'b', slots: 2 },
    { name: 'c', slots: 3 },
  ]);
  assert.deepEqual(
    table.map(({ name, slots }) => `${name}:${slots}`),
    ['b:2', 'c:3', 'a:4'],
  );
});

test('a host that is not listed has no slots, and gets them back (test_update_available_hosts)', () => {
  const table: HostRecord[] = [];
  listHosts(table, [
    { name: 'a', slots: 2 },
    { name: 'b', slots: 2 },
  ]);
  for (const host of table) host.phase = 'open';
  listHosts(table, [{ name: 'a', slots: 1 }]);
  assert.deepEqual(
    usableHosts(table).map(({ name, slots }) => [name, slots]),
    [['a', 1]],
  );
  listHosts(table, [{ name: 'b', slots: 4 }]);
  assert.deepEqual(
    usableHosts(table).map(({ name, slots }) => [name, slots]),
    [['b', 4]],
  );
});

test('three starts that fail in a row on every slot make a host unusable; one that succeeds counts', () => {
  const table: HostRecord[] = [];
  listHosts(table, [{ name: 'a', slots: 2 }]);
  const host = findHost(table, 'a') as HostRecord;
  const failure = { now: 0, range, random: 0 };
  const fail = (slot: number, hadBeenReady = false) => slotFailed(host, slot, hadBeenReady, failure);
  assert.deepEqual(
    [fail(0), fail(0), fail(0), fail(1), fail(1), fail(1)],
    [false, false, false, false, false, true],
  );
  assert.equal(fail(1, true), false);
});

test('a worker is started in the lowest slot that is neither taken nor left alone', () => {
  const table: HostRecord[] = [];
  listHosts(table, [{ name: 'a', slots: 3 }]);
  assert.deepEqual(
    hostsToOpen(table, 0).map(({ name }) => name),
    ['a'],
  );
  const host = findHost(table, 'a') as HostRecord;
  assert.equal(freeSlot(host, [], 0), undefined);
  host.phase = 'open';
  assert.equal(freeSlot(host, [0], 0), 1);
  slotFailed(host, 1, true, { now: 0, range, random: 0 });
  slotFailed(host, 1, true, { now: 0, range, random: 0 });
  assert.deepEqual(
    [freeSlot(host, [0], 0), freeSlot(host, [0], 1000), freeSlot(host, [0, 1, 2], 1000)],
    [2, 1, undefined],
  );
});
