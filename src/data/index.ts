// The face of `horovod/data`: training data as pipelines that every rank reads its share of.

export { batchInfo, type DataIterator } from './data-iterator.ts';
export {
  type DataServicePart,
  type DatasetTransform,
  distribute,
  sendToDataService,
  tfDataService,
} from './data-service.ts';
export { Dataset } from './dataset.ts';
export type {
  BatchOf,
  BatchOptions,
  BatchValue,
  BucketOptions,
  PaddedBatchOptions,
} from './dataset-options.ts';
export type { BatchInfo } from './execute/iteration.ts';
export type { DataMetrics } from './execute/metrics.ts';
export {
  type ColumnTypes,
  type CsvDatasetOptions,
  csvDataset,
  type ElementOf,
  type ImageFolderOptions,
  imageFolderDataset,
  jsonLinesDataset,
  npyDataset,
  type ParquetDatasetOptions,
  parquetDataset,
  textLineDataset,
} from './file-sources.ts';
export {
  type CreateOptions,
  type FileStatus,
  type FileSystem,
  type FileSystemFactory,
  type FileWaitOptions,
  glob,
  hdfs,
  type ReadHandle,
  type RemoveOptions,
  type RenameOptions,
  registerFileSystem,
  type WriteHandle,
} from './file-systems.ts';
export {
  decodeExample,
  decodeSequenceExample,
  type ExampleValue,
  type SequenceExampleValues,
} from './formats/example/decode.ts';
export {
  type ExampleInput,
  type ExampleInputs,
  encodeExample,
  encodeSequenceExample,
  type SequenceExampleInputs,
} from './formats/example/encode.ts';
export {
  type Feature,
  type FeatureDType,
  type Features,
  FixedLenFeature,
  FixedLenSequenceFeature,
  VarLenFeature,
} from './formats/example/features.ts';
export type { TfRecordWriterOptions } from './formats/tfrecord/writer.ts';
export type { DataState } from './order/state.ts';
export {
  type ElementContext,
  exported,
  type FunctionReference,
  type Json,
} from './plan/function-reference.ts';
export {
  type ReadConfigOptions,
  TfDataServiceConfig,
  type TfDataServiceConfigFields,
  type TfDataServiceConfigJson,
} from './service/config.ts';
export type { ComputeClient } from './service/registry-client.ts';
export type {
  DispatcherEntry,
  DispatcherReport,
  DispatcherSide,
  DispatcherStatus,
  JobReport,
  ServiceStatus,
  WorkerEntry,
  WorkerReport,
  WorkerStatus,
} from './service/registry-messages.ts';
export type {
  DispatcherAddress,
  DistributeOptions,
  ProcessingMode,
  SendToDataServiceOptions,
} from './service/requests.ts';
export {
  arrayDataset,
  type ModuleDatasetOptions,
  moduleDataset,
  type PartContext,
  rangeDataset,
  type SourceOptions,
  type TfRecordDatasetOptions,
  tfRecordDataset,
} from './sources.ts';
export {
  TfRecordWriter,
  type WriteTfRecordsOptions,
  type WrittenTfRecords,
  writeTfRecords,
} from './tfrecord-writer.ts';
