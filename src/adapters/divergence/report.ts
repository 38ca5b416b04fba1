// What a rank says about its weights and its data, and what all ranks conclude from what all of them have said. Pure: every
// rank finds the same answer.

import { cpus } from 'node:os';
import type { TypedArray } from '../../tensor/dtype.ts';
import type { DataReport } from './data-notes.ts';
import { digestOf, strideOf } from './digest.ts';
import { type Split, splitBy } from './split.ts';

/** One weight as others see it. */
export interface WeightSummary {
  readonly digest: number;
  /** Some of its values, for ranks that compute in different ways. NaN and Infinity are null. */
  readonly values: readonly (number | null)[];
}

export interface Report {
  readonly weights: readonly WeightSummary[];
  /** What the rank computes with. Ranks with the same get the same bits. */
  readonly machine: string;
  /** Whether the weights have been broadcast to this rank; undefined where that is not known. */
  readonly wereBroadcast: boolean | undefined;
  /** Whether this rank can compare at the end of an epoch. */
  readonly seesEpochs: boolean;
  readonly data: DataReport;
}

/** The first weight that differs. */
export interface Difference extends Split {
  readonly place: number;
}

const valuesPerWeight = 4;
/** Of the largest value: ranks that round differently stay below it for long. */
const tolerance = 0.01;

export function summarize(values: TypedArray, maxWords: number): WeightSummary {
  const step = strideOf(values.length, valuesPerWeight);
  const shown: (number | null)[] = [];
  for (let at = 0; at < values.length; at += step) {
    const value = Number(values[at]);
    shown.push(Number.isFinite(value) ? value : null);
  }
  return { digest: digestOf(values, maxWords), values: shown };
}

export function machineWith(backend: string): string {
  return `${process.arch} ${cpus()[0]?.model ?? ''} ${backend}`;
}

/** Undefined where all weights are the same, or the ranks do not mean the same list of them. */
export function firstDifference(reports: readonly Report[]): Difference | undefined {
  const [first] = reports;
  if (first === undefined || reports.some(({ weights }) => weights.length !== first.weights.length))
    return undefined;
  const isExact = reports.every(({ machine }) => machine === first.machine);
  for (let place = 0; place < first.weights.length; place++) {
    const weights = reports.map((report) => report.weights[place] as WeightSummary);
    const split = splitBy(weights.map(({ digest }) => digest));
    if (split === undefined || (!isExact && areClose(weights))) continue;
    return { place, ...split };
  }
  return undefined;
}

function areClose(weights: readonly WeightSummary[]): boolean {
  const [first] = weights as [WeightSummary];
  const largest = Math.max(
    ...weights.flatMap(({ values }) => values.map((value) => Math.abs(value ?? 0))),
    1e-6,
  );
  return weights.every(({ values }) =>
    values.every((value, i) => {
      const other = first.values[i] ?? null;
      if (value === null || other === null) return value === other;
      return Math.abs(value - other) <= tolerance * largest;
    }),
  );
}
