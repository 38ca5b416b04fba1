// The main results of a timeline, from its summary: shares of time, the slowest rank, the largest tensors.

import type { RankSummary, TraceSummary } from './summary.ts';
import { inBytes, inTime } from './units.ts';

export interface RankShares {
  readonly rank: RankSummary;
  /** From its first to its last event. */
  readonly spanUs: number;
  /** Forward pass, backpropagation and update, if the framework adapter reported them. */
  readonly computeUs: number | undefined;
  /** Communication not hidden by computation: as reported by the adapter, otherwise all communication. */
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

/** The rank that the others wait for, if one clearly stands out. */
export function slowestRank(
  ranks: readonly RankShares[],
): { readonly rank: RankSummary; readonly lateUs: number; readonly share: number } | undefined {
  if (ranks.length < 2) return undefined;
  // Shares are compared, because timelines of ranks may cover different periods.
  const shareOf = ({ waitingUs, spanUs }: RankShares) => (spanUs > 0 ? waitingUs / spanUs : 0);
  const sorted = [...ranks].sort((a, b) => shareOf(a) - shareOf(b));
  const [least] = sorted as [RankShares, ...RankShares[]];
  const others = sorted.slice(1);
  const late = others.reduce((sum, each) => sum + shareOf(each), 0) / others.length - shareOf(least);
  return late >= minLateShare ? { rank: least.rank, lateUs: late * least.spanUs, share: late } : undefined;
}

/** As for the warning of a running job (HOROVOD_STRAGGLER_PERCENT): what is less is no one's fault. */
const minLateShare = 0.2;

/** What to change, most important first. */
export function adviceOn(shares: readonly RankShares[]): string[] {
  const slowest = slowestRank(shares);
  return [
    ...(slowest === undefined
      ? []
      : [
          `Slowest: ${slowest.rank.name}. On average, the other ranks wait ${inTime(slowest.lateUs)} longer than it does ` +
            `(${inPercent(slowest.share, 1)} of the time). Look at what it does between collectives: its data, its cores, and ` +
            'what else runs on its host.',
        ]),
    ...communicationAdvice(shares, slowest !== undefined),
    ...crowdAdvice(shares),
  ];
}

/** Shares of communication from here on are worth a remark. */
const muchCommunication = 0.3;
const shortStepUs = 10_000;

function communicationAdvice(shares: readonly RankShares[], isForStraggler: boolean): string[] {
  const trained = shares.filter(({ rank }) => rank.steps > 0);
  const steps = trained.reduce((sum, { rank }) => sum + rank.steps, 0);
  const stepUs = trained.reduce((sum, { rank }) => sum + rank.stepUs, 0) / Math.max(steps, 1);
  const exposedUs = trained.reduce((sum, { exposedUs }) => sum + exposedUs, 0) / Math.max(steps, 1);
  const share = stepUs > 0 ? Math.min(exposedUs / stepUs, 1) : 0;
  if (shares.length < 2 || share < muchCommunication || isForStraggler) return [];
  const what = `A step takes ${inTime(stepUs)}, of which ${Math.round(100 * share)} % is communication`;
  return [
    stepUs < shortStepUs
      ? `${what}: use a larger batch. With so little to compute between two collectives, more ranks make training slower.`
      : `${what} that no computation hides. Try a larger batch, compression or --autotune.`,
  ];
}

function crowdAdvice(shares: readonly RankShares[]): string[] {
  const hosts = new Map<string, { ranks: number; cores: number }>();
  for (const { rank } of shares) {
    const host = /\((.*), pid \d+\)$/.exec(rank.name)?.[1];
    if (host === undefined || rank.cores === undefined) continue;
    hosts.set(host, { ranks: (hosts.get(host)?.ranks ?? 0) + 1, cores: rank.cores });
  }
  return [...hosts].flatMap(([host, { ranks, cores }]) =>
    ranks > cores
      ? [
          `${ranks} ranks share ${count(cores, 'core')} on ${host} and slow each other down. Use as many ranks as cores.`,
        ]
      : [],
  );
}

export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}

export interface FindingsTable {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** The operations that took longest. */
export function longestOperations({ operations }: TraceSummary, most: number): FindingsTable {
  const rows = operations
    .slice(0, most)
    .map((each) => [
      each.name,
      each.kind,
      String(each.count),
      inTime(each.totalUs),
      inTime(each.totalUs / each.count),
      inPercent(each.waitUs, each.totalUs),
      inBytes(each.bytes / each.count),
    ]);
  return { head: ['operation', 'kind', 'count', 'total', 'each', 'waiting', 'bytes each'], rows };
}

export function largestTensors({ operations }: TraceSummary, most: number): FindingsTable {
  const rows = operations
    .filter(({ mostBytes }) => mostBytes > 0)
    .sort((a, b) => b.mostBytes - a.mostBytes)
    .slice(0, most)
    .map((each) => [
      each.name,
      inBytes(each.mostBytes),
      each.dtype,
      each.shape,
      inTime(each.totalUs / each.count),
    ]);
  return { head: ['operation', 'bytes', 'dtype', 'shape', 'each'], rows };
}

export function inPercent(part: number, whole: number): string {
  return whole <= 0 ? '–' : `${((100 * part) / whole).toFixed(1)} %`;
}
