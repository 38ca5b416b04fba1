// What collectives need from the rank they run on. Contexts implement it; operations/ knows nothing else about contexts.

import type { Log } from '../console/log.ts';
import type { HorovodError } from '../errors.ts';
import type { CompiledCalls } from './compiled/compiled-calls.ts';
import type { Members, Submission } from './plan.ts';
import type { ProcessSet } from './process-set.ts';

export interface OperationRunner {
  readonly world: { readonly rank: number; readonly size: number };
  readonly log: Log;
  /** Memory that the transport can reach without a copy. */
  alloc(bytes: number): ArrayBufferLike;
  /** The members of a process set that this rank may use; throws ERR_HVD_PROCESS_SET for any other. */
  membersOf(set: ProcessSet | undefined, what: string): Members;
  run<R>(...call: Submission<R>): Promise<R>;
  runSync<R>(...call: Submission<R>): R;
  /** Submits at once; the function returned blocks until the result is there. It must be called, once. */
  start<R>(...call: Submission<R>): () => R;
  /** The short way of calls that were agreed before. */
  readonly calls: CompiledCalls;
  /** Ends the job, on every rank. */
  fail(error: HorovodError): void;
}
