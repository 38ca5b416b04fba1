// Messages between the main thread, the reader thread and the compute threads, and errors as plain data.

import type { MessagePort } from 'node:worker_threads';
import { type ErrorCode, HorovodError } from '../../errors.ts';
import type { FileSystemRegistrations } from '../../files/registry.ts';
import type { FileSettings } from '../../settings/table.ts';
import type { ArrayColumn, SourceNode, StageNode } from '../plan/nodes.ts';
import type { IndexedFile } from './pieces.ts';
import type { ReadOrder } from './reader.ts';
import type { NativeChoice } from './source-formats.ts';
import type { Computed, ReadItem, WorkItem } from './work.ts';

/** What the reader thread gets at its start. */
export interface ReaderThreadData {
  readonly source: SourceNode;
  readonly files: readonly IndexedFile[];
  readonly order: ReadOrder;
  readonly interleave: number;
  readonly memoryBytes: number;
  readonly native: NativeChoice;
  readonly fileSettings: FileSettings;
  readonly registrations: FileSystemRegistrations;
  readonly main: MessagePort;
  readonly computers: readonly MessagePort[];
  /** Counts messages to the main thread, which may be blocked and wait for a change. */
  readonly counter: SharedArrayBuffer;
}

/** What a compute thread gets at its start. */
export interface ComputeThreadData {
  readonly source: SourceNode;
  readonly stages: readonly StageNode[];
  readonly columns: readonly ArrayColumn[] | undefined;
  /** What the index says of columns. */
  readonly known: unknown;
  readonly seed: number;
  readonly checksRepeats: boolean;
  readonly main: MessagePort;
  readonly reader: MessagePort;
  readonly counter: SharedArrayBuffer;
}

/** Main thread to reader. */
export type ReaderOrder = { readonly type: 'item'; readonly item: WorkItem } | { readonly type: 'close' };

/** Reader to compute thread: work. */
export type ComputeOrder = ReadItem;

/** Compute thread to reader: it wants work, and needs the records of its last item no longer. */
export interface ComputeRequest {
  readonly done: number | undefined;
}

/** Main thread to compute thread: memory that can be used again. */
export interface Recycled {
  readonly buffers: readonly SharedArrayBuffer[];
}

/** To the main thread. */
export type ThreadReport =
  | { readonly type: 'open' }
  | { readonly type: 'done'; readonly number: number; readonly computed: Computed }
  /** Without a number: nothing more will come from this thread. */
  | { readonly type: 'failed'; readonly number: number | undefined; readonly error: PlainError };

export interface PlainError {
  readonly code: ErrorCode | undefined;
  readonly text: string;
  readonly stack: string | undefined;
  readonly cause: PlainError | undefined;
}

export function plainError(error: unknown, depth = 0): PlainError {
  const given = error instanceof Error ? error : new Error(String(error));
  const isOurs = HorovodError.is(error);
  return {
    code: isOurs ? error.code : undefined,
    text: isOurs ? error.detail : given.message,
    stack: given.stack,
    cause: given.cause === undefined || depth > 3 ? undefined : plainError(given.cause, depth + 1),
  };
}

export function errorOf({ code, text, stack, cause }: PlainError): Error {
  const inner = cause === undefined ? undefined : errorOf(cause);
  if (code !== undefined) return new HorovodError(code, text, { cause: inner });
  const error = new Error(text, inner === undefined ? undefined : { cause: inner });
  // Where the user's function threw.
  if (stack !== undefined) error.stack = stack;
  return error;
}

/** Posts to the main thread, also if that is blocked. */
export function report(port: MessagePort, counter: Int32Array, message: ThreadReport): void {
  port.postMessage(message);
  Atomics.add(counter, 0, 1);
  Atomics.notify(counter, 0);
}
