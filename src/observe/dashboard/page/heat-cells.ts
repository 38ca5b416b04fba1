// The cells of the heat map: ranks × time, each the mean of what a rank reported in that stretch of time. Only numbers, no browser.

import type { RankSample, Sample } from '../messages.ts';

/** 'work': a step without the waiting for other ranks, which is what tells a slow rank from those that wait for it. */
export type Measure = 'step' | 'work' | 'wait';

export interface HeatCells {
  readonly ranks: readonly number[];
  readonly columns: number;
  readonly from: number;
  readonly to: number;
  /** Row by row; NaN where nothing is known. */
  readonly values: Float64Array;
  /** Where the colours begin and end: of all values but the outermost. */
  readonly low: number;
  readonly high: number;
}

export function measureOf(rank: RankSample, measure: Measure): number | undefined {
  const { stepMs, waitMs } = rank;
  if (measure === 'step') return stepMs;
  if (measure === 'wait') return waitMs;
  return stepMs === undefined || waitMs === undefined ? undefined : Math.max(0, stepMs - waitMs);
}

export function heatCells(samples: readonly Sample[], measure: Measure, columns: number): HeatCells {
  const ranks = [...new Set(samples.flatMap(({ ranks }) => ranks.map(({ rank }) => rank)))].sort(
    (a, b) => a - b,
  );
  const from = samples[0]?.at ?? 0;
  const to = samples.at(-1)?.at ?? 0;
  const rows = new Map(ranks.map((rank, row) => [rank, row]));
  const sums = new Float64Array(ranks.length * columns);
  const counts = new Float64Array(ranks.length * columns);
  const columnOf = (at: number) =>
    Math.min(columns - 1, Math.floor(((at - from) / Math.max(1, to - from)) * columns));
  samples.forEach((sample, index) => {
    const next = samples[index + 1];
    const first = columnOf(sample.at);
    // Older samples are further apart than columns: each fills the columns up to the next one.
    const last = next === undefined ? first : Math.max(first, columnOf(next.at) - 1);
    for (const rank of sample.ranks) {
      const value = rank.presence === 'here' ? measureOf(rank, measure) : undefined;
      if (value === undefined) continue;
      const row = rows.get(rank.rank) as number;
      for (let column = first; column <= last; column++) {
        const cell = row * columns + column;
        sums[cell] = (sums[cell] as number) + value;
        counts[cell] = (counts[cell] as number) + 1;
      }
    }
  });
  const values = sums.map((sum, cell) => sum / (counts[cell] as number));
  const known = values.filter((value) => !Number.isNaN(value)).sort();
  return {
    ranks,
    columns,
    from,
    to,
    values,
    low: known[Math.floor((known.length - 1) * 0.02)] ?? 0,
    high: known[Math.ceil((known.length - 1) * 0.98)] ?? 0,
  };
}

/** The slowest rank of the latest columns, if it stands out: 15 % above the middle one. */
export function slowestOf(
  cells: HeatCells,
  lastColumns: number,
): { rank: number; value: number; middle: number } | undefined {
  const { ranks, columns, values } = cells;
  const means = ranks.flatMap((rank, row) => {
    const latest = values.slice(row * columns + Math.max(0, columns - lastColumns), (row + 1) * columns);
    const known = latest.filter((value) => !Number.isNaN(value));
    return known.length === 0
      ? []
      : [{ rank, value: known.reduce((sum, each) => sum + each, 0) / known.length }];
  });
  if (means.length < 2) return undefined;
  const sorted = means.sort((a, b) => a.value - b.value);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)]?.value ?? 0;
  const { rank, value } = sorted.at(-1) as (typeof sorted)[number];
  return value > middle * 1.15 ? { rank, value, middle } : undefined;
}
