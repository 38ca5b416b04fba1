// The face of `horovod/spark`: trainings on data that Spark has written.

export {
  type FitJob,
  type FitLauncher,
  type FitOnParquetOptions,
  type FitResult,
  fitOnParquet,
} from './fit-on-parquet.ts';
export { Store, type StoreOptions } from './store.ts';
