// What follows a mismatch: the ranks exchange lists of what they wait for, come to the same decision
// (agreement/resolve.ts), and run what all of them have. Steps of a channel, taken out of it.

import { HorovodError } from '../errors.ts';
import type { AllgatherOperation, Batch, Outcome } from '../transport/transport.ts';
import { decodePendingLists, encodePendingList, type PendingList } from './agreement/pending-list.ts';
import { type Resolution, resolvePending, type Uneven } from './agreement/resolve.ts';
import type { ChannelHost } from './channel-host.ts';
import { type Description, nameOf } from './description.ts';
import { ObservedOperation } from './observer.ts';
import { areOptional, minTimeoutMs, type Request } from './request.ts';

/** What a resolution needs of its channel. */
export interface ResolvingChannel {
  /** This rank sits in a blocking call and will ask for nothing else until that returns. */
  readonly isBlocked: boolean;
  /** How many requests without a name this rank has counted. */
  readonly unnamed: number;
  /** How many operations this rank has taken part in, since all had joined. */
  readonly operations: number;
  launch(batch: Omit<Batch, 'stallAfterMs'>, end: (outcome: Outcome) => void): void;
  /** Undefined: it cannot run, and the job has been failed. */
  batchOf(requests: readonly Request[]): Batch | undefined;
  settle(request: Request, error: HorovodError | undefined): void;
  onLists(lists: readonly PendingList[], uneven: Uneven | undefined): void;
  /** `unnamed`: the highest count of any rank. */
  onAllJoined(unnamed: number): void;
  /** Requests that are not settled by now wait on. */
  onEnd(): void;
}

/** What the exchange of lists calls itself; no batch has this fingerprint but by a chance of 2^-64. */
const exchangeFingerprint = { fingerprintLow: 0x4c495354, fingerprintHigh: 0x45584348 };

/** `requests`: all that this rank waits for in the process set; at least one. */
export function resolve(requests: readonly Request[], host: ChannelHost, channel: ResolvingChannel): void {
  const list: PendingList = {
    isBlocked: channel.isBlocked,
    unnamed: channel.unnamed,
    operations: channel.operations,
    training: host.position?.(),
    requests: requests.map(({ description }) => description),
  };
  const operation: AllgatherOperation = { kind: 'allgather', input: encodePendingList(list) };
  const exchange = {
    rounds: [{ ...exchangeFingerprint, operation }],
    passive: false,
    timeoutMs: minTimeoutMs(requests),
    label: 'an exchange of pending lists',
    isOptional: areOptional(requests),
  };
  channel.launch(exchange, (outcome) => {
    if (!isAgreed(outcome, host)) return;
    let lists: PendingList[];
    try {
      lists = decodePendingLists(operation, host.members);
    } catch (error) {
      host.fail(error as HorovodError);
      return;
    }
    const resolution = resolvePending(lists, host.members);
    channel.onLists(lists, resolution.uneven);
    carryOut(resolution, lists, requests, host, channel);
  });
}

function carryOut(
  resolution: Resolution,
  lists: readonly PendingList[],
  requests: readonly Request[],
  host: ChannelHost,
  channel: ResolvingChannel,
): void {
  const { run, givenUp, lastJoined } = resolution;
  for (const request of requests) {
    request.wasExchanged = true;
    if (request.operation !== undefined) request.operation.exchanges++;
  }
  for (const key of givenUp) host.onGivenUp?.(key);
  // Nobody will find out by waiting: the operations of other batches fit as well.
  if (givenUp.length > 0 && resolution.uneven?.isProven === true) host.onUneven?.(resolution.uneven.text);
  if (lastJoined !== undefined) channel.onAllJoined(Math.max(...lists.map(({ unnamed }) => unnamed)));
  for (const request of requests) {
    const error = errorOf(request.description, resolution, host.rank);
    const isLastJoin = request.description.kind === 'join' && lastJoined !== undefined;
    if (isLastJoin) request.lastJoined = lastJoined;
    if (error !== undefined || isLastJoin) channel.settle(request, error);
  }
  const agreed = run.map(
    (description) =>
      requests.find((request) => request.description.key === description.key) ?? zeros(description, host),
  );
  if (agreed.length === 0) {
    channel.onEnd();
    return;
  }
  const batch = channel.batchOf(agreed);
  if (batch === undefined) return;
  for (const { operation } of agreed) if (operation !== undefined) host.observers.agreed(operation);
  channel.launch(batch, (outcome) => {
    if (!isAgreed(outcome, host)) return;
    for (const request of agreed) channel.settle(request, undefined);
    channel.onEnd();
  });
}

function zeros(description: Description, host: ChannelHost): Request {
  host.observers.stage(ObservedOperation.of(description, host.processSet), 'zeros');
  return host.zeroRequest(description);
}

function errorOf(
  description: Description,
  { errors, deadlock }: Resolution,
  rank: number,
): HorovodError | undefined {
  const tensor = nameOf(description);
  if (deadlock !== undefined) return new HorovodError('ERR_HVD_DEADLOCK', deadlock, { rank, tensor });
  const found = errors.get(description.key);
  return found && new HorovodError(found.code, found.message, { tensor, rank: found.rank });
}

/** After a decision all ranks do the same. That they do not is a bug, and not worth waiting for. */
function isAgreed(outcome: Outcome, host: ChannelHost): boolean {
  if (outcome === 'done') return true;
  host.fail(
    new HorovodError(
      'ERR_HVD_NATIVE',
      `rank ${host.rank}: the ranks disagree about an operation they had agreed on. This is a bug; please report it.`,
    ),
  );
  return false;
}
