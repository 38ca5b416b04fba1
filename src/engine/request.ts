// What one rank has asked for, on its way through a channel.

import type { HorovodError } from '../errors.ts';
import type { TransportOperation } from '../transport/transport.ts';
import { compareText, type Description, isOptional } from './description.ts';
import type { ObservedOperation } from './observer.ts';

/** A request on its way. */
export interface Request {
  readonly description: Description;
  readonly low: number;
  readonly high: number;
  readonly operations: readonly TransportOperation[];
  readonly timeoutMs: number;
  /** On the host's monotonic clock, which all its ranks share. */
  submittedAtMs: number;
  isSettled: boolean;
  /** Of its inputs when it was submitted: a buffer that is transferred before its turn comes has none. */
  inputBytes?: number;
  /** Of a join: the rank that came last. */
  lastJoined?: number;
  /** Has been in an exchange of pending lists. */
  wasExchanged?: boolean;
  /** What observers see of it. Made by the channel, unless it began as a quick operation; zeros have none. */
  operation?: ObservedOperation;
  resolve(): void;
  reject(error: HorovodError): void;
}

export function inputBytesOf(operations: readonly TransportOperation[]): number {
  let bytes = 0;
  for (const operation of operations) {
    if (operation.kind === 'allreduce') for (const input of operation.inputs) bytes += input.byteLength;
    else if (operation.kind !== 'barrier') bytes += operation.input.byteLength;
  }
  return bytes;
}

/** There are some, and all are optional. */
export function areOptional(requests: readonly Request[]): boolean {
  return requests.length > 0 && requests.every(({ description }) => isOptional(description));
}

export function minTimeoutMs(requests: readonly Request[]): number {
  return Math.min(...requests.map(({ timeoutMs }) => timeoutMs));
}

export function compareKeys(a: Request, b: Request): number {
  return compareText(a.description.key, b.description.key);
}
