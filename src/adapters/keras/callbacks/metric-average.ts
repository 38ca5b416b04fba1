// Averages the metrics of an epoch over all ranks, so that callbacks that decide by them (early stopping, checkpoints, schedules)
// decide the same on every rank. It must come before those in the list of callbacks.

import { HorovodError } from '../../../errors.ts';
import { allgatherObjectSync } from '../../../operations/collectives.ts';
import type { ProcessSet } from '../../../operations/process-set.ts';
import { currentContext, showMetrics } from '../../context.ts';
import { type FitLogs, HorovodCallback, readLogs } from './horovod-callback.ts';

export interface MetricAverageOptions {
  /** The ranks to average over; all. */
  processSet?: ProcessSet | undefined;
}

export class MetricAverageCallback extends HorovodCallback {
  readonly #processSet: ProcessSet | undefined;

  constructor(options: MetricAverageOptions = {}) {
    super();
    this.#processSet = options.processSet;
  }

  override async onEpochEnd(epoch: number, logs: FitLogs = {}): Promise<void> {
    await super.onEpochEnd(epoch, logs);
    const processSet = this.#processSet;
    if (processSet?.included() === false) return;
    const own = await readLogs(logs);
    // Blocking, as the reduction of gradients in fit() is: if a rank still trains while others have ended the epoch, that
    // deadlock is detected and reported at once.
    const ofRanks = allgatherObjectSync(currentContext(), own, {
      name: 'MetricAverageCallback',
      processSet,
    });
    const averaged = averageMetrics(ofRanks);
    showMetrics(averaged);
    for (const [metric, value] of Object.entries(averaged)) {
      const old = logs[metric];
      if (typeof old === 'object') old.dispose();
      logs[metric] = value;
    }
  }
}

/** The mean of each metric, summed in rank order, so that every rank gets the same bits. Exported for tests. */
export function averageMetrics(ofRanks: readonly Record<string, number>[]): Record<string, number> {
  const names = [...new Set(ofRanks.flatMap((metrics) => Object.keys(metrics)))].sort();
  return Object.fromEntries(
    names.map((name) => {
      const missing = ofRanks.findIndex((metrics) => metrics[name] === undefined);
      if (missing >= 0) throw missingMetric(name, missing, ofRanks);
      return [name, ofRanks.reduce((sum, metrics) => sum + (metrics[name] as number), 0) / ofRanks.length];
    }),
  );
}

function missingMetric(name: string, rank: number, ofRanks: readonly Record<string, number>[]): HorovodError {
  const having = ofRanks.flatMap((metrics, at) => (metrics[name] === undefined ? [] : [at]));
  return new HorovodError(
    'ERR_HVD_MISMATCH',
    `MetricAverageCallback: rank ${rank} has no metric "${name}" (${having.length === 1 ? 'rank' : 'ranks'} ${having.join(', ')} ` +
      `${having.length === 1 ? 'has' : 'have'}). Compile with the same metrics and give validation data on every rank or on none; ` +
      'callbacks that add metrics on one rank only come after this one.',
    { rank, tensor: name },
  );
}
