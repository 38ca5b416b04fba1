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

/** What is slow now is seen in this part of the time. */
const latestShare = 0.15;
/** Above the middle rank. */
const standsOut = 1.15;
/** The colours span at least this factor. */
const minSpan = 1.4;

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
  const low = known[Math.floor((known.length - 1) * 0.02)] ?? 0;
  const most = known[Math.ceil((known.length - 1) * 0.98)] ?? 0;
  const slowest = Math.max(0, ...latestMeans({ ranks, columns, values }).map(({ value }) => value));
  // One slow rank of many is less than the outermost values, and what is nearly the same gets nearly the same colour.
  const high = Math.max(most, slowest, low * minSpan);
  return { ranks, columns, from, to, values, low, high };
}

/** The slowest rank of the latest columns, if it stands out. */
export function slowestOf(cells: HeatCells): { rank: number; value: number; middle: number } | undefined {
  const sorted = latestMeans(cells).sort((a, b) => a.value - b.value);
  const last = sorted.at(-1);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)]?.value ?? 0;
  if (last === undefined || sorted.length < 2 || last.value <= middle * standsOut) return undefined;
  return { ...last, middle };
}

/** Of each rank that is known there, over the latest columns. */
function latestMeans({
  ranks,
  columns,
  values,
}: Pick<HeatCells, 'ranks' | 'columns' | 'values'>): { rank: number; value: number }[] {
  const latest = Math.ceil(columns * latestShare);
  return ranks.flatMap((rank, row) => {
    const known = values
      .slice((row + 1) * columns - latest, (row + 1) * columns)
      .filter((value) => !Number.isNaN(value));
    return known.length === 0
      ? []
      : [{ rank, value: known.reduce((sum, each) => sum + each, 0) / known.length }];
  });
}
