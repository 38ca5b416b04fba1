// The options of collectives, as users give them, and their checks.

import { HorovodError } from '../errors.ts';
import type { AnyCompressor, CompressionName } from '../tensor/compression/compression.ts';
import type { ReduceOp } from '../tensor/reduce-op.ts';
import { describe } from '../tensor/tensor.ts';
import type { ProcessSet } from './process-set.ts';

export interface CollectiveOptions {
  /** Matches the calls of different ranks. Default: the order of calls. */
  name?: string | undefined;
  /** Default: all ranks. */
  processSet?: ProcessSet | undefined;
  /** Ends the wait; see docs/guide/failures.md for what that means for the other ranks. */
  signal?: AbortSignal | undefined;
  /** Default: HOROVOD_TIMEOUT_SECONDS, 30 minutes. */
  timeoutMs?: number | undefined;
}

export interface ReduceOptions extends CollectiveOptions {
  /** Default: Average. */
  op?: ReduceOp | undefined;
  /** Multiplied with every rank's values before the reduction. */
  prescaleFactor?: number | undefined;
  /** Multiplied with the result. */
  postscaleFactor?: number | undefined;
  /** A member of Compression, its name, or your own compressor. Default: none. Lossy ones take Sum and Average only. */
  compression?: AnyCompressor | CompressionName | undefined;
}

export interface AllreduceOptions extends ReduceOptions {
  /** Write the result into the tensor given, and return it. */
  inPlace?: boolean | undefined;
}

export interface BroadcastOptions extends CollectiveOptions {
  inPlace?: boolean | undefined;
}

export interface AlltoallOptions extends CollectiveOptions {
  /** Rows for each rank of the set; default: equal parts. */
  splits?: readonly number[] | Int32Array | undefined;
}

export interface AlltoallResult<T> {
  readonly output: T;
  /** Rows that came from each rank. */
  readonly receivedSplits: Int32Array;
}

/** Checks the options and says how errors name the call. */
export function labelOf(call: string, options: CollectiveOptions): string {
  checkOptions(options, call);
  return options.name === undefined ? call : `${call} "${options.name}"`;
}

/** `what` is named in errors. */
export function checkOptions(options: CollectiveOptions, what: string): void {
  if (typeof options !== 'object' || options === null) {
    throw invalidArgument(`${what}: options must be an object, not ${describe(options)}.`);
  }
  const { name, signal, timeoutMs } = options;
  if (name !== undefined && (typeof name !== 'string' || name === '' || name.startsWith('#'))) {
    throw invalidArgument(
      `${what}: name must be a non-empty string that does not start with '#', not ${describe(name)}.`,
    );
  }
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs > 0)) {
    throw invalidArgument(`${what}: timeoutMs must be a number above 0, not ${describe(timeoutMs)}.`);
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw invalidArgument(`${what}: signal must be an AbortSignal, not ${describe(signal)}.`);
  }
}

export function checkFactor(value: number | undefined, name: string, what: string): number {
  if (value === undefined) return 1;
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw invalidArgument(`${what}: ${name} must be a finite number, not ${describe(value)}.`);
}

export function invalidArgument(text: string): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', text);
}
