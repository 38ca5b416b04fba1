// run(): the launcher as a function. It starts ranks as horovodrun does, calls a function on each of them, and returns the
// results. This file is the public interface; the code that starts a job is loaded on the first call.

import type { JobView } from '../../observe/status/job-view.ts';
import type { TransportChoice } from '../../settings/table.ts';
import type { DashboardChoice } from '../dashboard/for-program.ts';

export type { DashboardChoice, JobView };

export interface DiscoveredHost {
  readonly name: string;
  readonly slots: number;
}

/** Of every job that a program starts. */
export interface JobOptions {
  /** Number of ranks. Default: all slots of `hosts` or `hostfile`, or else one. */
  np?: number | undefined;
  /** Makes the job elastic, like --min-np of horovodrun: the function has to train inside elastic.run(). */
  minNp?: number | undefined;
  /** Of an elastic job. Default: all slots. */
  maxNp?: number | undefined;
  /** Makes the job elastic: a script, like --host-discovery-script, or a function that is asked every second. */
  discover?: string | (() => Promise<readonly DiscoveredHost[]>) | undefined;
  /** `host1:2,host2:2`, like -H of horovodrun. */
  hosts?: string | undefined;
  hostfile?: string | undefined;
  /** Environment variables for the ranks, in addition to those of this process. */
  env?: Readonly<Record<string, string>> | undefined;
  sshPort?: number | undefined;
  sshIdentityFile?: string | undefined;
  /** Default: HOROVOD_START_TIMEOUT, 30 s. */
  startTimeoutMs?: number | undefined;
  /** Also write the output of each rank below this directory, like --output-filename. */
  outputFilename?: string | undefined;
  /** Network interfaces or subnets to use. */
  networkInterfaces?: readonly string[] | undefined;
  /** What moves the tensors (HOROVOD_TRANSPORT). With 'mpi', mpirun starts the ranks. */
  transport?: TransportChoice | undefined;
  /** Encrypt tensors between hosts (HOROVOD_ENCRYPT). Default: false. Not with 'mpi' or 'gloo'. */
  encrypt?: boolean | undefined;
  /** Print the output of the ranks. Default: true. */
  showOutput?: boolean | undefined;
  /** Print `[rank]<stdout>:` before each line of output. Default: true. */
  prefixOutput?: boolean | undefined;
  /** Stops all ranks. */
  signal?: AbortSignal | undefined;
  /** Gets each line that a rank prints, without its end. `showOutput: false` shows it nowhere else. */
  onOutput?: ((rank: number, stream: 'stdout' | 'stderr', line: string) => void) | undefined;
  /** Gets what `horovod status --json` shows, twice a second and once at the end. Not with the transport 'mpi'. */
  onStatus?: ((view: JobView) => void) | undefined;
  /** Print on stderr what is being done. */
  verbose?: boolean | undefined;
}

export interface RunOptions<A extends readonly unknown[] = readonly unknown[]> extends JobOptions {
  /** Show the job on a web page, like --dashboard of horovodrun. Its URL is printed on stderr. */
  dashboard?: boolean | DashboardChoice | undefined;
  /** Arguments of the function, the same on every rank. They must be cloneable (no functions). */
  args?: A | undefined;
}

/**
 * Starts ranks, calls a function on each of them, and resolves to their results in the order of ranks. The function is sent
 * as source text, without the variables around it: import inside the function, with `await import('horovod')`, and pass
 * values as `args`. If a rank fails, the others are stopped and the promise rejects with ERR_HVD_RUN; its `rank` and `cause`
 * say which rank failed and why. In an elastic job (`minNp` or `discover`), the results are those of the ranks of the last generation.
 */
export function run<A extends readonly unknown[], R>(
  fn: (...args: A) => R,
  options?: RunOptions<A>,
): Promise<Awaited<R>[]>;
/**
 * The same for the default export of a module (.js, .mjs, .ts …), given by the path of its file. Of a notebook (.ipynb), the cells run, and
 * there are no results; launch() of `horovod/notebook` also shows them.
 */
export function run<R = unknown>(module: string | URL, options?: RunOptions): Promise<R[]>;
export async function run(
  target: ((...args: never[]) => unknown) | string | URL,
  options: RunOptions = {},
): Promise<unknown[]> {
  const { startRun } = await import('./start-run.ts');
  return startRun(target, options);
}
