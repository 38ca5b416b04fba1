// Checks come about ten times a second, less often where they are slow, and never more than 64 commits apart.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CheckSchedule } from './check-schedule.ts';

/** The commits at which a single rank checks, if each commit takes so many milliseconds. */
function checksOf(
  msOf: (commit: number) => number,
  commits: number,
  tookMs = (_commit: number) => 0,
): number[] {
  const schedule = new CheckSchedule(0, 0);
  const checks: number[] = [];
  let now = 0;
  for (let commit = 1; commit <= commits; commit++) {
    now += msOf(commit);
    if (!schedule.isDue(commit)) continue;
    checks.push(commit);
    schedule.checked(commit, schedule.propose(commit, now), now, tookMs(commit));
  }
  return checks;
}

test('slow steps: every commit is checked', () => {
  assert.deepEqual(
    checksOf(() => 150, 5),
    [1, 2, 3, 4, 5],
  );
});

test('steps of 10 ms: from every commit to every tenth', () => {
  assert.deepEqual(
    checksOf(() => 10, 45),
    [1, 3, 7, 15, 25, 35, 45],
  );
});

test('checks that take long are further apart: two thousandths of the time, and every 500 ms at least', () => {
  const gapsOf = (tookMs: (commit: number) => number) => {
    const checks = checksOf(() => 10, 300, tookMs);
    return checks.map((commit, i) => commit - (checks[i - 1] ?? 0));
  };
  assert.deepEqual(gapsOf(() => 0.4).slice(4, 7), [16, 20, 20]);
  assert.deepEqual(gapsOf(() => 50).at(-1), 50);
  // One that has waited for a rank that was late says nothing.
  assert.deepEqual(gapsOf((commit) => (commit === 35 ? 50 : 0)).slice(-3), [10, 10, 10]);
});

test('commits that cost nothing: every 64th, so that slower ones later are not checked too rarely', () => {
  const checks = checksOf((commit) => (commit < 200 ? 0 : 1000), 400);
  const gaps = checks.map((commit, i) => commit - (checks[i - 1] ?? 0));
  assert.equal(Math.max(...gaps), 64);
  assert.equal(gaps.at(-1), 1);
});

test('several commits without a check in between, as after checkHostUpdates(), count from the last check', () => {
  const schedule = new CheckSchedule(7, 0);
  assert.equal(schedule.isDue(7), false);
  assert.equal(schedule.isDue(8), true);
  schedule.checked(10, 4, 0);
  assert.deepEqual(
    [13, 14].map((commit) => schedule.isDue(commit)),
    [false, true],
  );
  assert.equal(schedule.propose(10, 1000), 1);
});
