import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sampleAt } from '../../../../test/support/dashboard-states.ts';
import type { RankSample, Sample } from '../messages.ts';
import { metricCurves, smoothed, stepParts, usualLargest } from './curves.ts';

const base = sampleAt({ ranks: 1, samples: 1 }, 0);

function sampleOf(step: number, metrics: Sample['metrics']): Sample {
  return { ...base, headline: { ...base.headline, step }, metrics };
}

describe('curves of metrics', () => {
  test('one for each name, by step', () => {
    const curves = metricCurves([sampleOf(1, { loss: 3 }), sampleOf(2, { loss: 2, accuracy: 0.5 })]);
    assert.deepEqual(
      curves.map(({ name, x, y, latest }) => ({ name, x, y, latest })),
      [
        { name: 'loss', x: [1, 2], y: [3, 2], latest: 2 },
        { name: 'accuracy', x: [2], y: [0.5], latest: 0.5 },
      ],
    );
  });

  test('steps that are repeated after a reset count once, as they came last', () => {
    const [curve] = metricCurves([
      sampleOf(1, { loss: 3 }),
      sampleOf(2, { loss: 2 }),
      sampleOf(3, { loss: 1 }),
      sampleOf(2, { loss: 2.5 }),
    ]);
    assert.deepEqual(
      [curve?.x, curve?.y],
      [
        [1, 2],
        [3, 2.5],
      ],
    );
  });

  test('a value that stays has a beginning and an end, whatever the number of samples', () => {
    const values = [0.6, 0.6, 0.6, 0.6, 0.2, 0.2, 0.2, Number.NaN, 0.1];
    const [curve] = metricCurves(
      values.map((value, step) => ({
        ...base,
        headline: { ...base.headline, step },
        metrics: { val_loss: Number.isNaN(value) ? 'NaN' : value },
      })),
    );
    assert.deepEqual(curve?.x, [0, 3, 4, 6, 7, 8]);
    assert.deepEqual(curve?.y, [0.6, 0.6, 0.2, 0.2, null, 0.1]);
  });

  test('what is no number is a gap, and it is known since when', () => {
    const samples = [sampleOf(1, { loss: 3 }), sampleOf(2, { loss: 'NaN' }), sampleOf(3, { loss: 'NaN' })];
    const [broken] = metricCurves(samples);
    assert.deepEqual([broken?.y, broken?.latest, broken?.brokenSince], [[3, null, null], 'NaN', 2]);
    const [healed] = metricCurves([...samples, sampleOf(4, { loss: 1 })]);
    assert.equal(healed?.brokenSince, undefined);
  });
});

describe('smoothing', () => {
  test('a constant stays what it is, from the first value on', () => {
    for (const value of smoothed([5, 5, 5, 5], 0.9)) assert.ok(Math.abs((value ?? 0) - 5) < 1e-12);
  });

  test('weighs older values less, and keeps gaps', () => {
    const [first, gap, last] = smoothed([0, null, 3], 0.5);
    assert.deepEqual([first, gap], [0, null]);
    assert.equal(last, 2);
    assert.deepEqual(smoothed([1, 2, 3], 0), [1, 2, 3]);
  });
});

describe('parts of a step', () => {
  const rank: RankSample = {
    ...(base.ranks[0] as RankSample),
    stepMs: 100,
    waitMs: 20,
    exposedMs: 30,
    dataShare: 0.1,
  };
  const sampleWith = (ranks: readonly RankSample[]): Sample => ({ ...base, ranks });

  test('together are the step: waiting is a part of what is exposed', () => {
    const [parts] = stepParts([sampleWith([rank])]);
    assert.deepEqual(parts, {
      at: base.at,
      computing: 60,
      data: 10,
      communication: 10,
      waiting: 20,
      isWaitingKnown: true,
    });
  });

  test('are those of the chosen rank, or an average', () => {
    const other = { ...rank, rank: 1, waitMs: 0, exposedMs: 10, dataShare: 0.3 };
    const sample = sampleWith([rank, other]);
    assert.equal(stepParts([sample])[0]?.waiting, 10);
    assert.equal(stepParts([sample], 1)[0]?.waiting, 0);
    assert.equal(stepParts([sample], 1)[0]?.communication, 10);
    assert.equal(stepParts([sample])[0]?.data, 20);
    assert.equal(stepParts([sample], 1)[0]?.data, 30);
  });

  test('figures that do not fit together never make a part negative', () => {
    const [parts] = stepParts([sampleWith([{ ...rank, waitMs: 250, exposedMs: 1 }])]);
    assert.deepEqual(parts, {
      at: base.at,
      computing: 0,
      data: 0,
      communication: 0,
      waiting: 100,
      isWaitingKnown: true,
    });
  });

  test('waiting that no rank knows is said to be unknown', () => {
    const [parts] = stepParts([sampleWith([{ ...rank, waitMs: undefined }])]);
    assert.deepEqual([parts?.communication, parts?.waiting, parts?.isWaitingKnown], [30, 0, false]);
  });

  test('a sample without steps is left out', () => {
    assert.deepEqual(stepParts([sampleWith([{ ...rank, stepMs: undefined }])]), []);
  });
});

describe('the end of a scale', () => {
  test('is the largest value, unless that is far beyond the others', () => {
    assert.equal(usualLargest([10, 12, 20]), 20);
    assert.equal(usualLargest([10, 11, 12, 12, 1200]), 36);
    assert.equal(usualLargest([]), 0);
  });
});
