import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MirrorSchedule } from './mirror-schedule.ts';

test('as often as takes a hundredth of the time, and at most four times more rarely than before', () => {
  const schedule = new MirrorSchedule(undefined, 0, 1000, 2);
  assert.equal(schedule.isDue(0), false);
  assert.equal(schedule.isDue(1), true);
  // Steps of 10 ms, copies of 2 ms: every 20th.
  assert.equal(schedule.propose(1, 1010), 4);
  schedule.mirrored(1, 4, 1012, 2);
  assert.deepEqual(
    [2, 4, 5].map((commit) => schedule.isDue(commit)),
    [false, false, true],
  );
  assert.equal(schedule.propose(5, 1052), 16);
  schedule.mirrored(5, 16, 1054, 2);
  assert.equal(schedule.propose(21, 1054 + 160), 20);
  schedule.mirrored(21, 20, 1216, 2);
  assert.equal(schedule.isDue(40), false);
  assert.equal(schedule.isDue(41), true);
});

test('never more rarely than every 100th commit', () => {
  const schedule = new MirrorSchedule(undefined, 0, 0, 1000);
  for (const [commit, interval] of [
    [1, 4],
    [5, 16],
    [21, 64],
    [85, 100],
    [185, 100],
  ] as const) {
    assert.equal(schedule.propose(commit, commit), interval);
    schedule.mirrored(commit, interval, commit, 1000);
  }
});

test('as often as you say', () => {
  const schedule = new MirrorSchedule(3, 10, 0, 1000);
  assert.deepEqual(
    [11, 12, 13].map((commit) => schedule.isDue(commit)),
    [false, false, true],
  );
  assert.equal(schedule.propose(13, 1), 3);
});
