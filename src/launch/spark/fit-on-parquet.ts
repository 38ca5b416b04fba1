// fitOnParquet(): what Horovod's Keras estimator does, without a DataFrame: trains a model of tf.layers on the Parquet files of a store,
// on several ranks, and leaves model, metrics and logs in the store. A run that has a checkpoint goes on from there. This file is the
// public interface; the code that starts a job is loaded on the first call.

import type { FitJob, FitLauncher, FitOnParquetOptions, FitResult } from './fit-options.ts';

export type { FitJob, FitLauncher, FitOnParquetOptions, FitResult };

/**
 * Trains a model on the Parquet files in `store.trainDataPath()`, and resolves when all epochs are done. After every epoch the model is
 * saved in `store.checkpointPath(runId)`; a call with the same runId goes on after the last epoch that is saved. Metrics are in
 * `store.logsPath(runId)`, for TensorBoard. If a rank fails, the promise rejects with ERR_HVD_RUN.
 */
export async function fitOnParquet(options: FitOnParquetOptions): Promise<FitResult> {
  const { startFit } = await import('./start-fit.ts');
  return startFit(options);
}
