import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RankStatus } from '../status/rank-status.ts';
import { findStraggler, isTooLate, stragglerText, WaitMeter } from './straggler.ts';

function statusOf(rank: number, waitMsPerStep: number | undefined): RankStatus {
  return { rank, host: `host${rank}`, pid: 800 + rank, waitMsPerStep } as RankStatus;
}

describe('the wait meter', () => {
  test('averages the time with something in flight, over the last hundred steps', () => {
    const meter = new WaitMeter();
    for (let step = 0; step < 150; step++) {
      const at = step * 100;
      meter.enter(at);
      meter.enter(at + 10); // inside the first: counted once
      meter.leave(at + 20);
      meter.leave(at + (step < 50 ? 90 : 30));
      meter.endStep(at + 100);
      if (step === 98) assert.equal(meter.averages(), undefined, 'too early to say');
    }
    assert.deepEqual(meter.averages(), { waitMs: 30, stepMs: 100 });
  });

  test('what is in flight at the end of a step counts for both', () => {
    const meter = new WaitMeter();
    for (let step = 0; step < 101; step++) {
      meter.enter(step * 100 + 60);
      if (step > 0) meter.leave(step * 100 + 60);
      meter.endStep((step + 1) * 100);
    }
    assert.equal(meter.averages()?.waitMs, 100);
  });

  test('looks at some of many small operations, and counts them for all', () => {
    const meter = new WaitMeter();
    let looks = 0;
    for (let step = 0; step < 200; step++) {
      for (let i = 0; i < 500; i++) {
        if (!meter.wants(4)) continue;
        looks++;
        meter.add(0.02);
      }
      meter.endStep(step * 20);
    }
    assert.ok(looks < 200 * 500 * 0.1, `${looks} looks`);
    const { waitMs = 0 } = meter.averages() ?? {};
    assert.ok(waitMs > 9 && waitMs < 11, `${waitMs} ms of 10`);
  });

  test('looks at all of few small operations: one of them may be what waits for a late rank', () => {
    const meter = new WaitMeter();
    for (let step = 0; step < 150; step++) {
      for (let i = 0; i < 3; i++) {
        assert.ok(meter.wants(4));
        meter.add(i === 0 ? 4 : 0.5);
      }
      meter.endStep(step * 20);
    }
    assert.equal(meter.averages()?.waitMs, 5);
  });

  test('looks at every large one', () => {
    const meter = new WaitMeter();
    for (let step = 0; step < 101; step++) {
      assert.ok(meter.wants(1 << 20));
      meter.add(5);
      meter.endStep(step * 20);
    }
    assert.equal(meter.averages()?.waitMs, 5);
  });
});

describe('the straggler', () => {
  test('is who waits least, and late by what the others wait more', () => {
    const found = findStraggler([statusOf(0, 40), statusOf(1, 45), statusOf(2, 2), statusOf(3, 50)], 200);
    assert.deepEqual(found, { rank: 2, host: 'host2', pid: 802, lateMs: 43, share: 0.215 });
    assert.match(
      found ? stragglerText(found) : '',
      /rank 2 \(host2, pid 802\) arrives last.* 43 ms per step for it \(22 % of a step\)/,
    );
  });

  test('is unknown while fewer than two ranks have said how long they wait', () => {
    assert.equal(findStraggler([statusOf(0, 40), statusOf(1, undefined), undefined], 200), undefined);
  });

  test('is warned of from a share of the step on, if that is more than noise', () => {
    const late = (lateMs: number, share: number) => ({ rank: 1, host: 'b', pid: 1, lateMs, share });
    assert.ok(isTooLate(late(43, 0.215), 20));
    assert.ok(!isTooLate(late(43, 0.19), 20));
    assert.ok(!isTooLate(late(0.1, 0.9), 20), 'of a step that takes no time');
    assert.ok(!isTooLate(late(43, 0.9), 0), 'turned off');
  });
});
