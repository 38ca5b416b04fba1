import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClockOffset } from './clock-offset.ts';

/** Their clock is so far ahead. */
const aheadUs = 5e6;

/** A question that takes `there` to arrive, is answered after `work`, and whose answer takes `back`. */
function ask(clock: ClockOffset, at: number, there: number, back: number, work = 0): void {
  const receivedUs = at + there + aheadUs;
  clock.heard({ askedUs: at, receivedUs, answeredUs: receivedUs + work, heardUs: at + there + work + back });
}

test('the answer that came back soonest says how far the clocks are apart', () => {
  const clock = new ClockOffset();
  assert.equal(clock.offsetUs, undefined);
  assert.equal(clock.errorUs(0), Number.POSITIVE_INFINITY);
  // The ways there and back take different times, as when a thread is late.
  ask(clock, 0, 900, 100);
  ask(clock, 10_000, 50, 2000);
  ask(clock, 20_000, 60, 40);
  ask(clock, 30_000, 5000, 20);
  assert.equal(clock.offsetUs, aheadUs + 10);
  assert.equal(clock.errorUs(20_100), 50);
  assert.equal(clock.answers, 4);
});

test('work between question and answer does not count', () => {
  const clock = new ClockOffset();
  ask(clock, 0, 30, 30, 8000);
  assert.equal(clock.offsetUs, aheadUs);
  assert.equal(clock.errorUs(8060), 30);
});

test('the error of an answer grows with its age, until a newer answer is better', () => {
  const clock = new ClockOffset();
  ask(clock, 0, 5, 5);
  assert.equal(clock.errorUs(10 + 1e6), 5 + 100);
  ask(clock, 500_000, 100, 60);
  assert.equal(clock.offsetUs, aheadUs);
  ask(clock, 1_000_000, 100, 60);
  assert.equal(clock.offsetUs, aheadUs + 20);
});

test('the true distance of the clocks is never further away than the error', () => {
  for (let there = 0; there <= 1000; there += 125) {
    for (let back = 0; back <= 1000; back += 125) {
      const clock = new ClockOffset();
      ask(clock, 77, there, back, 300);
      const distance = Math.abs((clock.offsetUs ?? Number.NaN) - aheadUs);
      assert.ok(distance <= clock.errorUs(0), `${there} µs there, ${back} µs back: ${distance} µs off`);
    }
  }
});

test('answers that cannot be are ignored', () => {
  const clock = new ClockOffset();
  clock.heard({ askedUs: 100, receivedUs: 5, answeredUs: 5, heardUs: 50 });
  clock.heard({ askedUs: Number.NaN, receivedUs: 5, answeredUs: 5, heardUs: 50 });
  clock.heard({ askedUs: 0, receivedUs: 9, answeredUs: 5, heardUs: 50 });
  assert.equal(clock.offsetUs, undefined);
  assert.equal(clock.answers, 0);
});
