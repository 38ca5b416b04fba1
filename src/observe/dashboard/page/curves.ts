// Figures along the samples, as charts draw them: metrics by step, smoothed; parts of a step by time. Only numbers, no browser.

import type { Sample } from '../messages.ts';

/** Above the middle value. */
const farBeyond = 3;

export interface Curve {
  readonly x: number[];
  /** null: a gap. */
  readonly y: (number | null)[];
}

export interface MetricCurve extends Curve {
  readonly name: string;
  /** As it came last. */
  readonly latest: number | string;
  /** The first step with a value that is no number, such as NaN, if the latest is one. */
  readonly brokenSince?: number | undefined;
}

/**
 * Of all metrics, in the order in which they came. A job that goes back to a commit repeats steps: only the last time counts, which
 * is the one that the weights come from.
 */
export function metricCurves(samples: readonly Sample[]): MetricCurve[] {
  const names = new Set(samples.flatMap(({ metrics }) => Object.keys(metrics)));
  return [...names].map((name) => metricCurve(name, samples));
}

function metricCurve(name: string, samples: readonly Sample[]): MetricCurve {
  const x: number[] = [];
  const y: (number | null)[] = [];
  let latest: number | string = '';
  let brokenSince: number | undefined;
  for (const { headline, metrics } of samples) {
    const value = metrics[name];
    if (value === undefined) continue;
    while (x.length > 0 && (x.at(-1) as number) >= headline.step) {
      x.pop();
      y.pop();
    }
    const last = typeof value === 'number' ? value : null;
    // A value that stays, as those of validation do for an epoch, has a beginning and an end: more of it would weigh on the average.
    if (y.length > 1 && y.at(-1) === last && y.at(-2) === last) {
      x.pop();
      y.pop();
    }
    x.push(headline.step);
    y.push(last);
    if (typeof value === 'number') brokenSince = undefined;
    else brokenSince ??= headline.step;
    latest = value;
  }
  return { name, x, y, latest, brokenSince };
}

/**
 * An exponential moving average that does not begin at zero, as TensorBoard draws it. `weight` is that of the past, from 0 to below 1.
 * Gaps stay gaps, and change nothing.
 */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  let sum = 0;
  let weights = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + (1 - weight) * value;
    weights = weights * weight + (1 - weight);
    return sum / weights;
  });
}

/** Parts of a step in ms, on average over the ranks of a sample that report them. Together they are the step. */
export interface StepParts {
  readonly at: number;
  readonly computing: number;
  /** Waiting for batches of a pipeline. */
  readonly data: number;
  readonly communication: number;
  /** Waiting for other ranks. 0 where no rank knows it: it is a part of communication then. */
  readonly waiting: number;
  readonly isWaitingKnown: boolean;
}

/** Of samples in which at least one rank knows how long its steps take. */
export function stepParts(samples: readonly Sample[], rank?: number): StepParts[] {
  return samples.flatMap(({ at, ranks }) => {
    const known = ranks.filter((each) => each.stepMs !== undefined && (rank ?? each.rank) === each.rank);
    if (known.length === 0) return [];
    const step = mean(known.map(({ stepMs = 0 }) => stepMs));
    const waiting = Math.min(step, mean(known.map(({ waitMs = 0 }) => waitMs)));
    // What is exposed contains the waiting.
    const exposed = Math.max(waiting, Math.min(step, mean(known.map(({ exposedMs = 0 }) => exposedMs))));
    const data = Math.min(
      step - exposed,
      mean(known.map(({ stepMs = 0, dataShare = 0 }) => stepMs * dataShare)),
    );
    const isWaitingKnown = known.some(({ waitMs }) => waitMs !== undefined);
    const communication = exposed - waiting;
    return [{ at, computing: step - exposed - data, data, communication, waiting, isWaitingKnown }];
  });
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, each) => sum + each, 0) / values.length;
}

/** What a scale has to reach: the largest value, but not a few that are far beyond all others, such as the first steps. */
export function usualLargest(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted[Math.floor(sorted.length / 2)] ?? 0;
  return Math.min(sorted.at(-1) ?? 0, middle * farBeyond);
}
