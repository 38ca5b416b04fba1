// A compute worker in an elastic job (horovodrun --min-np), which replaces processes that are lost. The data service knows nothing of
// generations; so beside its work the process takes a seat in each of them, and lets the driver see that it lives and what has become
// of the others. Those of the first generation are the ranks of the service; whoever comes later joins it.

import { setTimeout as sleep } from 'node:timers/promises';
import { allreduce } from '../../context/default/default-collectives.ts';
import { currentGeneration, defaultWorld, init, shutdown } from '../../context/default/default-context.ts';
import { ObjectState } from '../../elastic/object-state.ts';
import { run } from '../../elastic/run.ts';
import { Min } from '../../tensor/reduce-op.ts';

/** What this process does in the service, until the service or its part in it ends. */
export interface ElasticWork {
  runRank(rank: number, size: number, signal: AbortSignal): Promise<void>;
  join(signal: AbortSignal): Promise<void>;
}

/** How often processes see whether all of them are there. */
const lookMs = 1000;

/** Leaves elastic.run() whatever the reason is: a time-out of the service is none of the elastic job. */
class WorkFailed extends Error {}

export async function workInElasticJob({ runRank, join }: ElasticWork, signal: AbortSignal): Promise<void> {
  await init({ signal });
  let outcome: 'works' | 'done' | { readonly error: unknown } = 'works';
  let working: Promise<void> | undefined;
  const ending = new AbortController();
  const whole = AbortSignal.any([signal, ending.signal]);
  const begin = async () => {
    const { rank, size } = defaultWorld();
    await (currentGeneration() === 1 ? runRank(rank, size, whole) : join(whole));
  };
  try {
    const state = new ObjectState({});
    await run(async () => {
      working ??= begin().then(
        () => {
          outcome = 'done';
        },
        (error: unknown) => {
          outcome = { error };
        },
      );
      for (;;) {
        await Promise.race([working, sleep(lookMs)]);
        // horovodrun ends all of them: nobody waits for the others.
        if (typeof outcome === 'object' || signal.aborted) throw new WorkFailed();
        const isOver = await allreduce(Int32Array.of(outcome === 'done' ? 1 : 0), {
          op: Min,
          name: 'horovod.compute-worker',
        });
        if (isOver[0] === 1) return;
        await state.commit();
      }
    }, state);
  } catch (error) {
    if (!(error instanceof WorkFailed)) {
      ending.abort();
      await working;
      throw error;
    }
  }
  await working;
  const ended = outcome as typeof outcome | { readonly error: unknown };
  if (typeof ended === 'object') throw ended.error;
  if (!signal.aborted) await shutdown();
}
