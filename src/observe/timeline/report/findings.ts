// What a reader of a timeline wants to know first, from its summary: shares of time, the slowest rank, the largest tensors.

import type { OperationSummary, RankSummary, TraceSummary } from './summary.ts';

export interface RankShares {
  readonly rank: RankSummary;
  /** From its first to its last event. */
  readonly spanUs: number;
  /** Forward, backpropagation and update, as the framework adapters tell; undefined: they did not. */
  readonly computeUs: number | undefined;
  /** Communication that no computation hid: told by the adapters, or else all of it. */
  readonly exposedUs: number;
  readonly isExposedTold: boolean;
  readonly communicationUs: number;
  readonly waitingUs: number;
  readonly otherUs: number;
}

export function sharesOf(rank: RankSummary): RankShares {
  const spanUs = Math.max(0, rank.toUs - rank.fromUs);
  const { phases } = rank;
  const communicationUs = rank.communication.length;
  const hasPhases = phases.size > 0;
  const phase = (name: string) => phases.get(name) ?? 0;
  const computeUs = hasPhases ? phase('FORWARD') + phase('BACKPROP') + phase('UPDATE') : undefined;
  const exposedUs = hasPhases ? phase('EXPOSED_COMMUNICATION') : communicationUs;
  const otherUs = Math.max(0, spanUs - exposedUs - (computeUs ?? 0));
  const waitingUs = rank.waiting.length;
  return {
    rank,
    spanUs,
    computeUs,
    exposedUs,
    isExposedTold: hasPhases,
    communicationUs,
    waitingUs,
    otherUs,
  };
}

/** The rank that the others wait for, if there is one that clearly stands out. */
export function slowestRank(
  ranks: readonly RankShares[],
): { readonly rank: RankSummary; readonly lateUs: number } | undefined {
  if (ranks.length < 2) return undefined;
  // Ranks may have had their timelines on for different times: shares are compared.
  const shareOf = ({ waitingUs, spanUs }: RankShares) => (spanUs > 0 ? waitingUs / spanUs : 0);
  const sorted = [...ranks].sort((a, b) => shareOf(a) - shareOf(b));
  const [least] = sorted as [RankShares, ...RankShares[]];
  const others = sorted.slice(1);
  const late = others.reduce((sum, each) => sum + shareOf(each), 0) / others.length - shareOf(least);
  return late > 0.02 ? { rank: least.rank, lateUs: late * least.spanUs } : undefined;
}

export function largestTensors(summary: TraceSummary, most: number): OperationSummary[] {
  return summary.operations
    .filter(({ mostBytes }) => mostBytes > 0)
    .sort((a, b) => b.mostBytes - a.mostBytes)
    .slice(0, most);
}

/** '1.24 s', '350 ms', '12 µs' */
export function inTime(us: number): string {
  if (us >= 1e6) return `${(us / 1e6).toFixed(us >= 1e8 ? 0 : 2)} s`;
  if (us >= 1e3) return `${(us / 1e3).toFixed(us >= 1e5 ? 0 : 1)} ms`;
  return `${us.toFixed(0)} µs`;
}

export function inBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${Number(value.toFixed(value < 10 && unit > 0 ? 1 : 0))} ${units[unit]}`;
}

export function inPercent(part: number, whole: number): string {
  return whole <= 0 ? '–' : `${((100 * part) / whole).toFixed(1)} %`;
}
