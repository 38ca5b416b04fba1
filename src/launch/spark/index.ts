// The face of `horovod/spark`: jobs whose ranks run in the tasks of a Spark job, and trainings on data that Spark has written.

export {
  type FitJob,
  type FitLauncher,
  type FitOnParquetOptions,
  type FitResult,
  fitOnParquet,
} from './fit-on-parquet.ts';
export { run, type SparkOptions, type SparkRunOptions } from './run.ts';
export { Store, type StoreOptions } from './store.ts';
