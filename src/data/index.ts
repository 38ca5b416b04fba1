// The face of `horovod/data`: training data as pipelines that every rank reads its share of.

export { batchInfo, type DataIterator } from './data-iterator.ts';
export {
  type BatchOf,
  type BatchOptions,
  type BatchValue,
  type BucketOptions,
  Dataset,
  type PaddedBatchOptions,
} from './dataset.ts';
export type { BatchInfo } from './execute/iteration.ts';
export type { DataMetrics } from './execute/metrics.ts';
export type { DataState } from './order/state.ts';
export {
  type ElementContext,
  exported,
  type FunctionReference,
  type Json,
} from './plan/function-reference.ts';
export {
  arrayDataset,
  rangeDataset,
  type SourceOptions,
  type TfRecordDatasetOptions,
  tfRecordDataset,
} from './sources.ts';
