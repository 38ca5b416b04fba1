// Ranks as the page shows them: a row of its table, and a colour. Pure: from one look at the job. Words are those of `horovod status`.

import type { JobView, RankView } from '../status/job-view.ts';
import {
  ageOf,
  freshRate,
  lastText,
  latenessIn,
  minWaitMs,
  staleAfterMs,
  stateText,
} from '../status/rank-words.ts';
import type { RankSample, Sample, Tone } from './messages.ts';

/** Others that have waited for so long are a reason to look. */
export const slowWaitMs = 2000;
/** And for so long, to worry. */
export const badWaitMs = 30_000;

/** `straggler`: who arrives last in each step. */
export function rankSamples({ ranks, failure }: JobView, now: number, straggler?: number): RankSample[] {
  const [cause, ...others] = lostRanks({ ranks, failure });
  const lateText = latenessIn(ranks);
  const awaited = awaitedSince(ranks, now);
  return ranks.map((view) => {
    const { rank, presence, status } = view;
    const tone = toneOf(view, now, { waitedMs: awaited.get(rank) ?? 0, isStraggler: rank === straggler });
    const stepsPerSecond = stepRate(view, now);
    const late = lateText(view);
    const last = status === undefined ? '' : lastText(status);
    const hasData = status?.data !== undefined && presence === 'here';
    return {
      rank,
      host: status?.host ?? '',
      pid: status?.pid ?? 0,
      presence,
      tone,
      ...(rank === cause?.rank && others.length > 0 ? { isCause: true as const } : {}),
      text: stateText(view, now) || workText(view),
      step: status?.step ?? 0,
      ...(stepsPerSecond > 0 ? { stepMs: rounded(1000 / stepsPerSecond) } : {}),
      ...(status?.waitMsPerStep === undefined ? {} : { waitMs: status.waitMsPerStep }),
      ...(status?.exposedMsPerStep === undefined ? {} : { exposedMs: status.exposedMsPerStep }),
      samplesPerSecond: rounded(freshRate(view, now, 'samplesPerSecond')),
      bytesPerSecond: rounded(freshRate(view, now, 'bytesPerSecond')),
      ...(late === '' ? {} : { late }),
      ...(last === '' ? {} : { last }),
      ...(hasData ? { dataShare: status.data?.share } : {}),
      ...(status?.busyCores === undefined ? {} : { busyCores: status.busyCores }),
      rssBytes: status?.rssBytes ?? 0,
      metrics: metricsOf(view),
    };
  });
}

/** Lost ranks, the one first that has taken the others along. */
export function lostRanks({ ranks, failure = '' }: Pick<JobView, 'ranks' | 'failure'>): RankView[] {
  const lost = ranks.filter(({ presence }) => presence === 'lost');
  // The reason of the job's failure begins with the rank.
  const blamed = Number(/\brank (\d+)/.exec(failure)?.[1] ?? Number.NaN);
  const order = ({ rank, end = '' }: RankView) => (rank === blamed ? 0 : /killed by/.test(end) ? 1 : 2);
  return lost.sort((a, b) => order(a) - order(b) || a.rank - b.rank);
}

/** For each rank that others wait for: for how long, at most. */
export function awaitedSince(ranks: readonly RankView[], now: number): Map<number, number> {
  const awaited = new Map<number, number>();
  for (const view of ranks) {
    if (view.presence !== 'here') continue;
    for (const { missing, waitedMs } of view.status?.pending ?? []) {
      const ms = waitedMs + ageOf(view, now);
      // Ranks that wait for each other's next operation name many for a moment.
      if (ms < minWaitMs) continue;
      for (const rank of missing) awaited.set(rank, Math.max(awaited.get(rank) ?? 0, ms));
    }
  }
  return awaited;
}

/** Of the last seconds; 0 for a rank that has not said anything lately. */
export function stepRate(view: RankView, now: number): number {
  const { status, presence } = view;
  if (status === undefined || presence !== 'here' || ageOf(view, now) >= staleAfterMs) return 0;
  return status.rates.stepsPerSecond;
}

export function metricsOf({ status }: RankView): Sample['metrics'] {
  return Object.fromEntries((status?.metrics ?? []).map(([name, value]) => [name, toJson(Number(value))]));
}

function toJson(value: number): Sample['metrics'][string] {
  return Number.isFinite(value) ? value : (String(value) as 'NaN' | 'Infinity' | '-Infinity');
}

function workText({ status }: RankView): string {
  if (status === undefined) return '';
  return status.step > 0 ? 'trains' : 'runs';
}

function toneOf(
  view: RankView,
  now: number,
  { waitedMs, isStraggler }: { readonly waitedMs: number; readonly isStraggler: boolean },
): Tone {
  const { presence, activity, status } = view;
  if (presence === 'lost' || activity === 'stopped') return 'bad';
  if (presence !== 'here' || status === undefined) return 'idle';
  if (waitedMs >= badWaitMs) return 'bad';
  if (waitedMs >= slowWaitMs || isStraggler) return 'slow';
  const [oldest] = status.pending;
  const age = ageOf(view, now);
  // It waits for others: nothing is wrong with it.
  if (oldest !== undefined && oldest.waitedMs + age >= slowWaitMs) return 'idle';
  return age >= staleAfterMs && activity !== 'busy' ? 'slow' : 'good';
}

function rounded(value: number): number {
  return Number(value.toPrecision(5));
}
