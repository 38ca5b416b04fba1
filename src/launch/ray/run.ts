// run() in the actors of a Ray cluster. This file is the public interface; the code that starts a job is loaded on the first call.

import type { RunOptions } from '../run/run.ts';

export interface RayRunOptions<A extends readonly unknown[] = readonly unknown[]>
  extends Omit<
    RunOptions<A>,
    'np' | 'minNp' | 'maxNp' | 'discover' | 'hosts' | 'hostfile' | 'sshPort' | 'sshIdentityFile'
  > {
  /** Number of ranks, one in each actor, on as few nodes as possible. Default: 1. */
  numWorkers?: number | undefined;
  /** Instead of numWorkers: so many nodes, with `workersPerHost` ranks on each. */
  numHosts?: number | undefined;
  workersPerHost?: number | undefined;
  /** What Ray reserves for each rank. Default: 1. */
  cpusPerWorker?: number | undefined;
  /** Default: 0. The ranks see their GPUs in CUDA_VISIBLE_DEVICES. */
  gpusPerWorker?: number | undefined;
  /** Makes the job elastic: lost actors are started again elsewhere. The function has to train inside elastic.run(). */
  minWorkers?: number | undefined;
  /** Of an elastic job. Default: numWorkers. */
  maxWorkers?: number | undefined;
  /**
   * Of the cluster: `auto`, `host:6379` or `ray://host:10001`. Default: RAY_ADDRESS, or the cluster that runs on this machine, or else a
   * new one on this machine, for this job.
   */
  address?: string | undefined;
  /** More arguments of ray.init(), for a new cluster on this machine: `{ num_cpus: 4 }`. */
  init?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** The Python that has Ray, on this machine. Default: python3. */
  pythonExecutable?: string | undefined;
  /** Until Ray has started all actors. Default: 10 minutes. */
  startTimeoutMs?: number | undefined;
}

/**
 * Calls a function on each rank, in the actors of a Ray cluster, and resolves to the results in the order of ranks. The function is sent as
 * source text, as by run() of `horovod`. Ranks have the environment of the actors and `env`, not that of this process. If a rank, an actor
 * or a node is lost, the promise rejects with ERR_HVD_RUN.
 */
export function run<A extends readonly unknown[], R>(
  fn: (...args: A) => R,
  options?: RayRunOptions<A>,
): Promise<Awaited<R>[]>;
/** The same for the default export of a module. Its file has to be on the nodes, too, at the same path. */
export function run<R = unknown>(module: string | URL, options?: RayRunOptions): Promise<R[]>;
export async function run(
  target: ((...args: never[]) => unknown) | string | URL,
  options: RayRunOptions = {},
): Promise<unknown[]> {
  const { startRayRun } = await import('./start-ray-run.ts');
  return startRayRun(target, options);
}
