// run(): the launcher as a function. It starts ranks as horovodrun does, lets each of them call a function, and gives
// back what they returned. This file is the public face; what starts a job is loaded when somebody does.

import type { TransportChoice } from '../../settings/table.ts';

export interface RunOptions<A extends readonly unknown[] = readonly unknown[]> {
  /** How many ranks. Default: all slots of `hosts` or `hostfile`; without those, one. */
  np?: number | undefined;
  /** `host1:2,host2:2`, as -H of horovodrun. */
  hosts?: string | undefined;
  hostfile?: string | undefined;
  /** For the function, on every rank the same: values that can be cloned (no functions). */
  args?: A | undefined;
  /** Variables for the ranks, on top of those of this process. */
  env?: Readonly<Record<string, string>> | undefined;
  sshPort?: number | undefined;
  sshIdentityFile?: string | undefined;
  /** Default: HOROVOD_START_TIMEOUT, 30 s. */
  startTimeoutMs?: number | undefined;
  /** Also writes the output of each rank below this directory, as --output-filename. */
  outputFilename?: string | undefined;
  /** Names of interfaces, or subnets, that may be used. */
  networkInterfaces?: readonly string[] | undefined;
  /** What moves the bytes: HOROVOD_TRANSPORT. With 'mpi' the ranks are started by mpirun. */
  transport?: TransportChoice | undefined;
  /** False: the output of the ranks is not shown. */
  showOutput?: boolean | undefined;
  /** False: it is shown without `[rank]<stdout>:` in front of each line. */
  prefixOutput?: boolean | undefined;
  /** Ends all ranks. */
  signal?: AbortSignal | undefined;
  /** Says on stderr what is done. */
  verbose?: boolean | undefined;
}

/**
 * Starts ranks and calls a function on each; resolves to what they returned, by rank. The function travels as its
 * text, without the variables around it: import inside it, with `await import('horovod')`, and give values as `args`.
 * Rejects with ERR_HVD_RUN, whose `rank` and `cause` tell which rank failed and of what; the others are ended.
 */
export function run<A extends readonly unknown[], R>(
  fn: (...args: A) => R,
  options?: RunOptions<A>,
): Promise<Awaited<R>[]>;
/** The same for the function that a module (.js, .mjs, .ts …) exports as its default. A path is that of a file. */
export function run<R = unknown>(module: string | URL, options?: RunOptions): Promise<R[]>;
export async function run(
  target: ((...args: never[]) => unknown) | string | URL,
  options: RunOptions = {},
): Promise<unknown[]> {
  const { startRun } = await import('./start-run.ts');
  return startRun(target, options);
}
