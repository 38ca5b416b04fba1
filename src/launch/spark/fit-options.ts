// The options and results of fitOnParquet().

import type { Store } from './store.ts';

/** A compiled model of tf.layers. */
export interface CompiledModel {
  readonly optimizer: unknown;
  save(handler: never, config?: { includeOptimizer?: boolean }): Promise<unknown>;
}

/** What starts the ranks gets this: options of run() of `horovod/spark`. */
export interface FitJob {
  readonly numProc: number;
  /** Both only for elastic jobs. */
  readonly minNumProc?: number | undefined;
  readonly maxNumProc?: number | undefined;
  /** For the default export of the module. */
  readonly args: readonly unknown[];
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Starts ranks that call the default export of a module, and resolves to their results. */
export type FitLauncher = (module: URL, job: FitJob) => Promise<readonly unknown[]>;

export interface FitOnParquetOptions {
  /**
   * A compiled model; the location of one that saveModel() has saved; or what makes one on every rank: a function, which is sent as
   * source text and imports what it needs itself, or the path of a module (.js, .ts …) whose default export is one.
   */
  model: CompiledModel | (() => unknown) | string | URL;
  store: Store;
  /** Columns for the inputs of the model: one for each, or all of them together for its only one. */
  featureCols: readonly string[];
  /** Columns for its outputs, in the same way. */
  labelCols: readonly string[];
  /** Number of ranks. Default: 1. */
  numProc?: number | undefined;
  /** Makes the job elastic: it continues as long as there are so many ranks. */
  minNumProc?: number | undefined;
  maxNumProc?: number | undefined;
  /** Rows per step and rank. Default: 32. */
  batchSize?: number | undefined;
  /** Default: batchSize. */
  valBatchSize?: number | undefined;
  /** Number of epochs of the whole run, those before a resume included. Default: 1. */
  epochs?: number | undefined;
  /**
   * After each epoch, evaluate the model on `store.validationDataPath()` (true), on the Parquet files of another location, or on this
   * fraction of the training data, from 0 to 1, which is then not trained on: the last rows. Default: no validation.
   */
  validation?: boolean | number | string | URL | undefined;
  /**
   * Returns more callbacks for fitDataset(): a function, sent as source text, or the path of a module whose default export is one. It
   * is called on every rank.
   */
  callbacks?: (() => unknown) | string | URL | undefined;
  /** Names the run in the store. Default: a new one, from the time. */
  runId?: string | undefined;
  /** Another order of rows in each epoch; `pool` rows are mixed with each other. Default: seed 0, pool 10 000. */
  shuffle?: false | { readonly seed?: number | undefined; readonly pool?: number | undefined } | undefined;
  /** Of an elastic job: batches between two commits, which are repeated at most when a rank is lost. Default: 10. */
  batchesPerCommit?: number | undefined;
  /** Of TensorFlow.js, as in setBackend(). Default: 'auto'. */
  backend?: 'auto' | 'tensorflow' | 'wasm' | 'cpu' | undefined;
  /** Environment variables for the ranks. */
  env?: Readonly<Record<string, string>> | undefined;
  /** Print the progress of training. Default: true. */
  verbose?: boolean | undefined;
  /** Stops all ranks. */
  signal?: AbortSignal | undefined;
  /**
   * What starts the ranks. Default: run() of `horovod`, on this machine. On Spark: `(module, job) => run(module, { ...job, master })`
   * with run() of `horovod/spark`.
   */
  run?: FitLauncher | undefined;
}

export interface FitResult {
  readonly runId: string;
  /** Where the trained model is, for loadModel() of `horovod/keras`. */
  readonly checkpoint: string;
  /** For TensorBoard. */
  readonly logs: string;
  /** Epochs that are done, with those before this call. */
  readonly epochs: number;
  /** The metrics of each epoch, averaged over the ranks. */
  readonly history: Readonly<Record<string, readonly number[]>>;
}
