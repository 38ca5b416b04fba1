// run() in the tasks of a Spark job. This file is the public interface; the code that starts a job is loaded on the first call.

import type { RunOptions } from '../run/run.ts';

/** How a program starts Spark. */
export interface SparkOptions {
  /** `spark://host:7077`, `yarn`, `k8s://…`, `local[4]`. Default: that of spark-submit's configuration. */
  master?: string | undefined;
  /** Properties of Spark: `{ 'spark.executor.memory': '2g' }`. */
  conf?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** Files that Spark copies to the working directory of each executor. */
  files?: readonly string[] | undefined;
  /** Archives that Spark unpacks there: `app.tar.gz#app`. */
  archives?: readonly string[] | undefined;
  /** Default: in SPARK_HOME, or on the PATH. */
  sparkSubmit?: string | undefined;
  /** PYSPARK_PYTHON: the Python of driver and executors. */
  pythonExecutable?: string | undefined;
}

export interface SparkRunOptions<A extends readonly unknown[] = readonly unknown[]>
  extends SparkOptions,
    Omit<
      RunOptions<A>,
      | 'np'
      | 'minNp'
      | 'maxNp'
      | 'discover'
      | 'hosts'
      | 'hostfile'
      | 'sshPort'
      | 'sshIdentityFile'
      | 'startTimeoutMs'
    > {
  /** Number of ranks, one in each task. Default: as many as Spark has slots at its start. */
  numProc?: number | undefined;
  /** Makes the job elastic: Spark starts lost tasks again elsewhere. The function has to train inside elastic.run(). */
  minNumProc?: number | undefined;
  /** Of an elastic job: number of tasks. */
  maxNumProc?: number | undefined;
  /** Until Spark has started all tasks. Default: HOROVOD_SPARK_START_TIMEOUT, 600 s. */
  startTimeoutMs?: number | undefined;
}

/**
 * Calls a function on each rank, in the tasks of a Spark job, and resolves to the results in the order of ranks. The function is sent as
 * source text, as by run() of `horovod`. Ranks have the environment of the executors and `env`, not that of this process. If a rank or an
 * executor is lost, the promise rejects with ERR_HVD_RUN.
 */
export function run<A extends readonly unknown[], R>(
  fn: (...args: A) => R,
  options?: SparkRunOptions<A>,
): Promise<Awaited<R>[]>;
/** The same for the default export of a module, or the cells of a notebook, which have no results. The file has to be on the executors, too. */
export function run<R = unknown>(module: string | URL, options?: SparkRunOptions): Promise<R[]>;
export async function run(
  target: ((...args: never[]) => unknown) | string | URL,
  options: SparkRunOptions = {},
): Promise<unknown[]> {
  const { startSparkRun } = await import('./start-spark-run.ts');
  return startSparkRun(target, options);
}
