import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClockOffset } from './clock-offset.ts';

test('the answer that came back soonest says how far the clocks are apart', () => {
  const clock = new ClockOffset();
  assert.equal(clock.offsetUs, undefined);
  // Their clock is 5 s ahead; the ways there and back take different times, as when a thread is late.
  const ask = (at: number, there: number, back: number) =>
    clock.heard(at, at + there + 5e6, at + there + back);
  ask(0, 900, 100);
  ask(10_000, 50, 2000);
  ask(20_000, 60, 40);
  ask(30_000, 5000, 20);
  assert.equal(clock.offsetUs, 5e6 + 10);
  assert.equal(clock.errorUs, 50);
});

test('old answers are forgotten, since clocks drift', () => {
  const clock = new ClockOffset();
  clock.heard(0, 0, 10);
  for (let i = 1; i <= 16; i++) clock.heard(i * 1000, i * 1000 + 300 + 10, i * 1000 + 20);
  assert.equal(clock.offsetUs, 300);
});

test('an answer from before its question, or none at all, counts for nothing', () => {
  const clock = new ClockOffset();
  clock.heard(100, 5, 50);
  clock.heard(Number.NaN, 5, 50);
  assert.equal(clock.offsetUs, undefined);
});
