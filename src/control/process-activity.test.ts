import assert from 'node:assert/strict';
import { test } from 'node:test';
import { activityOf, parseActivity, sampleActivity } from './process-activity.ts';

const stat = (state: string, ticks: number) => `812 (a (b) c) ${state} ${'0 '.repeat(10)}${ticks} 1 0 0`;

test('state and processor time are read behind a name with parentheses', () => {
  assert.deepEqual(parseActivity(stat('S', 41), 7), { state: 'S', cpuMs: 420, atMs: 7 });
  assert.equal(parseActivity('garbage', 7), undefined);
});

test('this process is seen where there is /proc', { skip: process.platform !== 'linux' }, () => {
  assert.ok((sampleActivity(process.pid, 0)?.cpuMs ?? 0) > 0);
  assert.equal(sampleActivity(2 ** 22 + 1, 0), undefined, 'no such process');
});

test('what a process does follows from two looks', () => {
  const look = (state: string, cpuMs: number, atMs: number) => ({ state, cpuMs, atMs });
  const before = look('S', 1000, 0);
  assert.equal(activityOf(before, look('S', 1400, 500)), 'busy');
  assert.equal(activityOf(before, look('R', 1000, 500)), 'busy', 'it would run if it got a core');
  assert.equal(activityOf(before, look('S', 1010, 500)), 'idle');
  assert.equal(activityOf(before, look('T', 1400, 500)), 'stopped');
  assert.equal(activityOf(before, look('Z', 1400, 500)), 'ended');
  assert.equal(activityOf(undefined, look('S', 1400, 500)), 'unknown');
  assert.equal(activityOf(before, undefined), 'unknown');
});
