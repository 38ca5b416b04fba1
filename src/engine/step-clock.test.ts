import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { init, markStep, shutdown } from '../index.ts';
import { StepClock, type StepMark } from './step-clock.ts';

describe('the step clock', () => {
  test('counts steps, and the samples of those that say', () => {
    const clock = new StepClock();
    clock.mark(32);
    clock.mark();
    clock.mark(0.5);
    assert.deepEqual([clock.step, clock.samples], [3, 32.5]);
  });

  test('tells listeners in their order, until they go', () => {
    let now = 10;
    const clock = new StepClock(() => now);
    const heard: (StepMark | string)[] = [];
    const leave = clock.subscribe((mark) => heard.push(mark));
    clock.subscribe(() => heard.push('second'));
    clock.mark(2);
    leave();
    now = 20;
    clock.mark();
    assert.deepEqual(heard, [{ step: 1, samples: 2, totalSamples: 2, atMs: 10 }, 'second', 'second']);
  });

  test('lets a listener go while it is being told', () => {
    const clock = new StepClock();
    let heard = 0;
    const leave = clock.subscribe(() => {
      heard++;
      leave();
    });
    clock.mark();
    clock.mark();
    assert.equal(heard, 1);
  });
});

test('markStep() takes a number of samples, or nothing, of a rank that has called init()', async () => {
  assert.throws(() => markStep(), { code: 'ERR_HVD_NOT_INITIALIZED' });
  await init();
  try {
    markStep();
    markStep({});
    markStep({ samples: 32 });
    markStep({ samples: 0 });
    for (const wrong of [
      { samples: -1 },
      { samples: Number.NaN },
      { samples: '3' },
      { samples: null },
      null,
      32,
    ]) {
      assert.throws(() => markStep(wrong as { samples: number }), { code: 'ERR_HVD_INVALID_ARGUMENT' });
    }
    assert.throws(() => markStep({ samples: -1 }), /samples must be the number of samples .*, not -1/);
  } finally {
    await shutdown();
  }
});

test('where the user marks steps, those an optimizer has seen are the same ones', () => {
  const clock = new StepClock();
  for (const samples of [8, 8, 4]) {
    clock.report();
    clock.mark(samples);
  }
  assert.deepEqual([clock.step, clock.samples], [3, 20]);
});

test('an optimizer alone, and a user alone, count each step', () => {
  const [optimizer, user] = [new StepClock(), new StepClock()];
  for (let i = 0; i < 3; i++) {
    optimizer.report(2);
    user.mark(2);
  }
  assert.deepEqual([optimizer.step, optimizer.samples], [3, 6]);
  assert.deepEqual([user.step, user.samples], [3, 6]);
});
