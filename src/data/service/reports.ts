// What compute workers and dispatchers say of themselves, for `horovod status`: from figures that only grow, how much there was of each
// lately. Pure.

import type { StageTimes } from '../execute/busy-times.ts';
import type { JobFigures } from './job.ts';
import {
  type DispatcherReport,
  type JobReport,
  maxReportLength,
  type WorkerReport,
} from './registry-messages.ts';

/** What a worker knows of itself. */
export interface WorkerFigures {
  /** Made so far. */
  readonly batches: number;
  readonly bytes: number;
  /** That it has now. */
  readonly leases: number;
  /** How full its memory is, from 0 to 1. */
  readonly share: number;
  /** So far, divided by how many threads run the stage. */
  readonly busy: StageTimes;
}

interface Look extends WorkerFigures {
  readonly atMs: number;
}

/** Times of stages come with the batches, so that a second says little. */
const windowMs = 5000;
/** A worker whose stages are less busy than this has nothing to do. */
const idleShare = 0.005;

export class WorkerReports {
  readonly #looks: Look[];

  constructor(atMs: number, figures: WorkerFigures) {
    this.#looks = [{ atMs, ...figures }];
  }

  /** Called about once a second. */
  look(atMs: number, figures: WorkerFigures): WorkerReport {
    const looks = this.#looks;
    const now = { atMs, ...figures };
    const before = looks.at(-1) as Look;
    while (looks.length > 1 && atMs - (looks[1] as Look).atMs >= windowMs) looks.shift();
    const first = looks[0] as Look;
    looks.push(now);
    const perSecond = (name: 'batches' | 'bytes') =>
      atMs > before.atMs ? (1000 * (now[name] - before[name])) / (atMs - before.atMs) : 0;
    const busiestStage = busiestBetween(first, now);
    return {
      batchesPerSecond: perSecond('batches'),
      bytesPerSecond: perSecond('bytes'),
      leases: now.leases,
      arena: now.share,
      ...(busiestStage === undefined ? {} : { busiestStage }),
    };
  }
}

function busiestBetween(first: Look, now: Look): WorkerReport['busiestStage'] {
  const ms = now.atMs - first.atMs;
  if (ms <= 0) return undefined;
  const [worst] = Object.entries(now.busy)
    .map(([name, busyMs]) => ({ name, share: Math.min(1, (busyMs - (first.busy[name] ?? 0)) / ms) }))
    .sort((a, b) => b.share - a.share);
  return worst === undefined || worst.share < idleShare ? undefined : worst;
}

/** As many jobs as a report holds. */
export function dispatcherReport(jobs: readonly JobFigures[]): DispatcherReport {
  const shown: JobReport[] = [];
  let length = JSON.stringify({ jobs: shown }).length;
  for (const { name, epoch, done, batches, starved } of jobs) {
    const share = batches === null || batches === 0 ? undefined : Math.min(1, done / batches);
    const report: JobReport = {
      name,
      epoch,
      ...(share === undefined ? {} : { done: Number(share.toFixed(3)) }),
      starved,
    };
    length += JSON.stringify(report).length + 1;
    if (length > maxReportLength) break;
    shown.push(report);
  }
  return { jobs: shown };
}
