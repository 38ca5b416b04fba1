// The assignment of ranks: examples, and everything that must hold for three hosts with three slots, whoever is lost and
// whoever stands by.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Candidate, plan } from './plan.ts';

const hosts = ['a', 'b', 'c'].map((name) => ({ name, slots: 3 }));
const limits = { min: 1, max: 9, needsSurvivor: true };
const place = (worker: number, rank?: number): Candidate => ({
  worker,
  rank,
  host: 'abc'[Math.floor((worker % 9) / 3)] as string,
  slot: worker % 3,
});

test('the first generation takes its ranks in the order of hosts and slots', () => {
  const standbys = [4, 0, 1, 3].map((worker) => place(worker));
  assert.deepEqual(plan({ hosts, survivors: [], standbys, ...limits, needsSurvivor: false }), {
    kind: 'seats',
    workers: [0, 1, 3, 4],
    removed: [],
  });
});

test('survivors keep their ranks, newcomers take those that are free (test_get_host_assignments_elastic)', () => {
  const survivors = [place(0, 0), place(2, 2), place(3, 3)];
  const next = plan({ hosts, survivors, standbys: [place(10)], ...limits });
  assert.deepEqual(next, { kind: 'seats', workers: [0, 10, 2, 3], removed: [] });
});

test('if rank 0 is lost, the lowest survivor becomes rank 0', () => {
  const next = plan({ hosts, survivors: [place(1, 1), place(2, 2)], standbys: [place(9)], ...limits });
  assert.deepEqual(next, { kind: 'seats', workers: [1, 9, 2], removed: [] });
});

test('survivors beyond the new size take the lowest free ranks, in their order', () => {
  const survivors = [place(1, 1), place(3, 3), place(4, 4)];
  const next = plan({ hosts, survivors, standbys: [], ...limits });
  assert.deepEqual(next, { kind: 'seats', workers: [1, 3, 4], removed: [] });
});

test('the newest go first where a host has fewer slots, or the job fewer ranks', () => {
  const survivors = [place(0, 0), place(1, 1), place(9, 2)];
  const fewer = [{ name: 'a', slots: 2 }];
  assert.deepEqual(plan({ hosts: fewer, survivors, standbys: [], ...limits }), {
    kind: 'seats',
    workers: [0, 1],
    removed: [9],
  });
  assert.deepEqual(plan({ hosts, survivors, standbys: [], ...limits, max: 1 }), {
    kind: 'seats',
    workers: [0],
    removed: [1, 9],
  });
});

test('a host that is not listed has no ranks', () => {
  const survivors = [place(0, 0), place(3, 1)];
  const next = plan({ hosts: hosts.slice(1), survivors, standbys: [place(1)], ...limits });
  assert.deepEqual(next, { kind: 'seats', workers: [3], removed: [0] });
});

test('fewer than --min-np wait; without a survivor the job ends, unless it has not begun', () => {
  assert.deepEqual(plan({ hosts, survivors: [place(0, 0)], standbys: [], ...limits, min: 2 }), {
    kind: 'wait',
    available: 1,
  });
  assert.deepEqual(plan({ hosts, survivors: [], standbys: [place(0)], ...limits }), { kind: 'end' });
  assert.deepEqual(plan({ hosts, survivors: [], standbys: [], ...limits, needsSurvivor: false }), {
    kind: 'wait',
    available: 0,
  });
});

test('whoever is lost of nine ranks and whoever stands by: ranks are kept, and rank 0 is a survivor', () => {
  for (let lost = 0; lost < 512; lost++) {
    for (let joining = 0; joining < 512; joining += lost % 16 === 0 ? 3 : 73) {
      const survivors = bits(~lost & 511).map((number) => place(number, number));
      const standbys = bits(joining & lost).map((number) => place(number + 9));
      for (const max of [4, 9]) check(survivors, standbys, max);
    }
  }
});

function check(survivors: Candidate[], standbys: Candidate[], max: number): void {
  const next = plan({ hosts, survivors, standbys, ...limits, max });
  if (survivors.length === 0) {
    assert.deepEqual(next, { kind: 'end' });
    return;
  }
  assert.ok(next.kind === 'seats');
  const { workers } = next;
  const size = Math.min(survivors.length + standbys.length, max);
  const seated = new Set(workers);
  assert.deepEqual([workers.length, seated.size], [size, size]);
  const staying = survivors.filter(({ worker }) => seated.has(worker));
  assert.equal(staying.length, Math.min(survivors.length, max));
  assert.ok(staying.some(({ worker }) => worker === workers[0]));
  const lowest = staying[0] as Candidate;
  assert.equal(workers[0], lowest.worker);
  for (const { worker, rank = 0 } of staying.slice(1)) {
    // Rank 0 may have been taken over from above, but nobody else moves without need.
    if (rank < size) assert.equal(workers[rank], worker, `${JSON.stringify(next)} moved rank ${rank}`);
  }
}

function bits(set: number): number[] {
  return Array.from({ length: 9 }, (_, bit) => bit).filter((bit) => (set >> bit) & 1);
}
