import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Silence } from './silence.ts';

/** Ticks every 250 ms up to `untilMs`. */
function run(silence: Silence, fromMs: number, untilMs: number): void {
  for (let now = fromMs + 250; now <= untilMs; now += 250) silence.tick(now);
}

test('silence is the time since a peer was heard', () => {
  const silence = new Silence(0);
  silence.heard(1);
  run(silence, 0, 4000);
  silence.heard(2);
  run(silence, 4000, 10_000);
  assert.equal(silence.silentMs(1), 10_000);
  assert.equal(silence.silentMs(2), 6000);
  assert.equal(silence.silentMs(3), 0);
});

test('time in which this process itself stood still counts for a second at most', () => {
  const silence = new Silence(0);
  silence.heard(1);
  run(silence, 0, 2000);
  silence.tick(3_602_000);
  assert.equal(silence.silentMs(1), 3000);
  run(silence, 3_602_000, 3_604_000);
  assert.equal(silence.silentMs(1), 5000);
});

test('a busy machine, whose timers come late, loses nothing of it', () => {
  const silence = new Silence(0);
  silence.heard(1);
  for (let now = 900; now <= 9000; now += 900) silence.tick(now);
  assert.equal(silence.silentMs(1), 9000);
});
