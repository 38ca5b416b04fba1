import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { SilenceDetector } from './silence.ts';

/** A detector with a limit of 10 s: `tick(ms)` lets its timer go off `ms` after the last time. */
function detect(t: TestContext) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let nowMs = 0;
  const silent: number[] = [];
  const detector = new SilenceDetector<number>(
    10_000,
    (peer) => silent.push(peer),
    () => nowMs,
  );
  const tick = (ms: number) => {
    nowMs += ms;
    t.mock.timers.tick(500);
  };
  const run = (untilMs: number) => {
    while (nowMs < untilMs) tick(500);
  };
  return { detector, silent, tick, run };
}

test('silence is the time since a peer was heard, and is reported once', (t) => {
  const { detector, silent, run } = detect(t);
  detector.heard(1);
  run(4000);
  detector.heard(2);
  run(9500);
  assert.deepEqual(silent, []);
  run(10_000);
  assert.deepEqual(silent, [1]);
  run(60_000);
  assert.deepEqual(silent, [1, 2]);
});

test('a peer that is heard again and again is not silent', (t) => {
  const { detector, silent, run } = detect(t);
  for (let ms = 9000; ms < 100_000; ms += 9000) {
    detector.heard(1);
    run(ms);
  }
  assert.deepEqual(silent, []);
});

test('time in which this process itself stood still counts for four ticks', (t) => {
  const { detector, silent, tick, run } = detect(t);
  detector.heard(1);
  run(2000);
  tick(3_600_000);
  run(3_602_000 + 5500);
  assert.deepEqual(silent, []);
  run(3_602_000 + 6000);
  assert.deepEqual(silent, [1]);
});

test('a busy machine, whose timers come late, loses nothing of it', (t) => {
  const { detector, silent, tick } = detect(t);
  detector.heard(1);
  for (let i = 0; i < 11; i++) tick(900);
  assert.deepEqual(silent, []);
  tick(900);
  assert.deepEqual(silent, [1]);
});

test('nothing is reported after stop()', (t) => {
  const { detector, silent, run } = detect(t);
  detector.heard(1);
  detector.stop();
  run(20_000);
  assert.deepEqual(silent, []);
});
