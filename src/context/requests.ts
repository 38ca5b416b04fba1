// How a plan becomes a request: with its key, its fingerprint and its deadline.

import type { Channel } from '../engine/channel.ts';
import { nowMs } from '../engine/clock.ts';
import { type Description, fingerprintOf, labelOf, unnamedKey } from '../engine/description.ts';
import type { Request } from '../engine/request.ts';
import { HorovodError } from '../errors.ts';
import { zeroOperations } from '../operations/collectives/allreduce.ts';
import type { CollectiveOptions } from '../operations/options.ts';
import { describePlan, fingerprintOfPlan, type Plan } from '../operations/plan.ts';
import { dtypes } from '../tensor/dtype.ts';
import { Average, Max, Min, Product, Sum } from '../tensor/reduce-op.ts';

export interface PlannedCall<R> extends Pick<Request, 'resolve' | 'reject'> {
  readonly plan: Plan<R>;
  readonly options: CollectiveOptions;
  /** Undefined: the user's name, or the next number of the channel. */
  readonly key: string | undefined;
  readonly rank: number;
  readonly defaultTimeoutMs: number;
}

export function requestOf<R>(channel: Channel, call: PlannedCall<R>): Request {
  const { plan, options, resolve, reject } = call;
  const description = describePlan(plan, call.key ?? options.name ?? unnamedKey(channel.nextUnnamed()));
  plan.onKey?.(description.key);
  const { low, high } = fingerprintOfPlan(plan, description, call.rank);
  return {
    description,
    low,
    high,
    operations: plan.operations,
    timeoutMs: options.timeoutMs ?? call.defaultTimeoutMs,
    submittedAtMs: nowMs(),
    isSettled: false,
    resolve,
    reject,
  };
}

/** The request of a rank that has joined, for what the others ask: the same with zeros. */
export function zeroRequest(description: Description, size: number, timeoutMs: number): Request {
  const op = [Average, Sum, Min, Max, Product].find(({ name }) => name === description.op);
  const codes = description.dtypes.map((dtype) => dtypes[dtype].code);
  const { low, high } = fingerprintOf(description, op?.code ?? -1, codes);
  return {
    description,
    low,
    high,
    operations: zeroOperations(description, size),
    timeoutMs,
    submittedAtMs: nowMs(),
    isSettled: false,
    resolve() {},
    reject() {},
  };
}

/**
 * Lets the signal end a request: it is taken back, or, where other ranks may count on it already, the job ends. Returns
 * what stops listening.
 */
export function abortOn(
  signal: AbortSignal,
  channel: Channel,
  request: Request,
  host: { readonly rank: number; fail(error: HorovodError): void },
): () => void {
  const onAbort = () => {
    const error = abortedError(labelOf(request.description), host.rank, signal);
    if (!channel.withdraw(request, error)) host.fail(error);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  return () => signal.removeEventListener('abort', onAbort);
}

export function abortedError(what: string, rank: number, signal: AbortSignal): HorovodError {
  return new HorovodError('ERR_HVD_ABORTED', `rank ${rank}: ${what} was ended by its AbortSignal.`, {
    rank,
    cause: signal.reason,
  });
}
