// What a quick operation needs that does not end at once: it becomes an ordinary request.

import type { Channel } from '../../engine/channel.ts';
import type { Request } from '../../engine/request.ts';
import { fromCaller, type HorovodError } from '../../errors.ts';
import type { QuickPath } from '../../transport/transport.ts';
import type { CollectiveOptions } from '../options.ts';
import type { Plan } from '../plan.ts';
import type { ProcessSet } from '../process-set.ts';
import type { OperationRunner } from '../runner.ts';

/** What compiled calls need of the rank they run on, besides what all collectives need. */
export interface CompiledRunner extends OperationRunner {
  readonly limits: { readonly operationTimeoutMs: number };
  /** The channel of a process set, if it is idle and well. */
  quickChannel(set: ProcessSet | undefined): Channel | undefined;
  /** The request of a quick operation that did not end at once. */
  requestFor<R>(slow: SlowOperation<R>): Request;
  /** Counts prepared collectives of a process set. */
  nextPrepared(set: ProcessSet | undefined, what: string): number;
  /** Undoes nextPrepared() for one that the others never counted. */
  returnPrepared(set: ProcessSet | undefined, what: string): void;
}

export interface SlowOperation<R> extends Pick<Request, 'resolve' | 'reject'> {
  readonly plan: Plan<R>;
  readonly options: CollectiveOptions;
  readonly key: string;
  /** As observers know it. Undefined: they have not heard of it. */
  readonly sequence: number | undefined;
}

/** The peers of a blocking quick operation are late, want something else, or are gone. Throws what it ends with. */
export function finishSlowly<R>(
  runner: CompiledRunner,
  channel: Channel,
  quick: QuickPath,
  status: number,
  slow: Omit<SlowOperation<R>, 'resolve' | 'reject'>,
): void {
  let failure: HorovodError | undefined;
  const request = runner.requestFor({
    ...slow,
    resolve() {},
    reject(error) {
      failure = error;
    },
  });
  channel.settleQuickSync(request, quick, status);
  if (failure !== undefined) throw fromCaller(failure);
}

/**
 * A promise that resolves to this rejects with `error`, whose stack shows the line that awaits it. Only failures pay for it:
 * an async function around the operation would do the same, and makes small tensors 10 % slower.
 */
export async function rejectAtCaller(error: HorovodError): Promise<never> {
  // V8 finds the awaiting line by way of the promises that wait for this one, and the first of them does so two jobs from now.
  await undefined;
  await undefined;
  throw fromCaller(error);
}
