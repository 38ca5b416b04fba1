// The results of an elastic run(): those of the workers of the last generation, by rank. Workers that were lost have none, and an
// error of one worker is the job's only if the job fails.

import type { ElasticJob } from '../elastic/elastic-job.ts';
import { aborted, failureOf, type RankOutcome, withoutResult } from './failures.ts';
import { decodeOutcome, type Outcome } from './outcome.ts';
import { callKey, getBytes, outcomeKey, putBytes } from './store-bytes.ts';

/** What all ranks call, and what is needed for errors. */
export interface Collection {
  readonly call: Buffer;
  readonly signal: AbortSignal | undefined;
  readonly remarks: readonly string[];
}

/** How long ranks may take to end by themselves after all results have arrived. */
const lingerMs = 1000;

export async function collectElastic(
  job: ElasticJob,
  { call, signal, remarks }: Collection,
): Promise<unknown[]> {
  const outcomes = new Map<number, Outcome>();
  let lingering: NodeJS.Timeout | undefined;
  let isEnded = false;
  const isComplete = () =>
    job.workers.length > 0 && job.workers.every((worker) => outcomes.get(worker)?.kind === 'value');
  const deliveries: Promise<void>[] = [];
  job.onWorker((worker) => {
    const delivery = getBytes(job.store, outcomeKey(worker), { from: worker }).then(
      (bytes) => {
        outcomes.set(worker, decodeOutcome(bytes));
        if (!isComplete()) return;
        lingering ??= setTimeout(() => {
          isEnded = true;
          job.interrupt('SIGTERM');
        }, lingerMs);
      },
      () => undefined,
    );
    deliveries.push(delivery);
  });
  void putBytes(job.store, callKey, call).catch(() => undefined);
  const code = await job.finish();
  await Promise.all(deliveries);
  clearTimeout(lingering);
  if (signal?.aborted) throw aborted(signal);
  const { workers } = job;
  if (isComplete() && (code === 0 || isEnded))
    return workers.map((worker) => {
      const outcome = outcomes.get(worker);
      return outcome?.kind === 'value' ? outcome.value : undefined;
    });
  const failed: RankOutcome[] = [...outcomes].map(([worker, outcome]) => {
    const rank = workers.indexOf(worker);
    return { rank: rank < 0 ? worker : rank, outcome };
  });
  throw failureOf(failed) ?? withoutResult(code, undefined, remarks);
}
