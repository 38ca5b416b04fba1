import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { dashboardStart, sampleAt } from '../../../../test/support/dashboard-states.ts';
import type { RankSample } from '../messages.ts';
import { heatCells, measureOf, slowestOf } from './heat-cells.ts';

const rank: RankSample = sampleAt({ ranks: 1, samples: 1 }, 0).ranks[0] as RankSample;

describe('cells of the heat map', () => {
  test('work is a step without waiting; where waiting is not known, it is not either', () => {
    assert.equal(measureOf({ ...rank, stepMs: 100, waitMs: 30 }, 'work'), 70);
    assert.equal(measureOf({ ...rank, stepMs: 100, waitMs: undefined }, 'work'), undefined);
    assert.equal(measureOf({ ...rank, stepMs: 100, waitMs: undefined }, 'step'), 100);
  });

  test('each is the mean of its stretch of time', () => {
    const sample = (at: number, stepMs: number) => ({
      ...sampleAt({ ranks: 1, samples: 1 }, 0),
      at,
      ranks: [{ ...rank, stepMs }],
    });
    const cells = heatCells([sample(0, 10), sample(10, 30), sample(60, 50), sample(100, 70)], 'step', 2);
    assert.deepEqual([...cells.values], [20, 60]);
    assert.deepEqual([cells.from, cells.to], [0, 100]);
  });

  test('old samples, which are far apart, leave no holes, but a rank that is gone does', () => {
    const shape = { ranks: 2, samples: 4 };
    const { samples } = dashboardStart(shape);
    const last = samples.at(-1) as (typeof samples)[number];
    const lost = {
      ...last,
      ranks: last.ranks.map((each) => (each.rank === 1 ? { ...each, presence: 'lost' as const } : each)),
    };
    const cells = heatCells([...samples.slice(0, -1), lost], 'step', 40);
    const holes = [...cells.values].flatMap((value, cell) => (Number.isNaN(value) ? [cell] : []));
    assert.deepEqual(holes, [79]);
  });

  test('one slow rank of 64 has a colour of its own and is named', () => {
    const { samples } = dashboardStart({ ranks: 64, samples: 100, slowRank: 37, slowFrom: 70 });
    const cells = heatCells(samples, 'work', 80);
    const slowest = slowestOf(cells);
    assert.equal(slowest?.rank, 37);
    assert.ok(cells.high >= (slowest?.value ?? Number.POSITIVE_INFINITY));
    assert.ok((slowest?.middle ?? 0) < 100);
  });

  test('nobody is named where nobody stands out, and noise does not use up the colours', () => {
    const { samples } = dashboardStart({ ranks: 8, samples: 50 });
    const cells = heatCells(samples, 'work', 40);
    assert.equal(slowestOf(cells), undefined);
    assert.ok(cells.high >= cells.low * 1.4);
  });

  test('without samples there are no cells', () => {
    const cells = heatCells([], 'step', 10);
    assert.deepEqual([cells.ranks.length, cells.values.length, cells.high], [0, 0, 0]);
    assert.equal(slowestOf(cells), undefined);
  });
});
