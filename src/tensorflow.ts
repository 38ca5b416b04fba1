// The public face of `horovod/tensorflow`: the core, and what TensorFlow.js adds to it. The collectives listed here
// replace those of the core: they take and return tf tensors, too.

export { pinGpu } from './adapters/tensorflow/backend/pin-gpu.ts';
export {
  type BackendName,
  type BackendOptions,
  setBackend,
} from './adapters/tensorflow/backend/set-backend.ts';
export {
  broadcastGlobalVariables,
  broadcastGlobalVariablesSync,
  broadcastVariables,
  broadcastVariablesSync,
  type VariableList,
} from './adapters/tensorflow/broadcast-variables.ts';
export {
  allgather,
  allgatherSync,
  allreduce,
  allreduceSync,
  alltoall,
  alltoallSync,
  broadcast,
  broadcastSync,
  groupedAllgather,
  groupedAllgatherSync,
  groupedAllreduce,
  groupedAllreduceSync,
  groupedReducescatter,
  groupedReducescatterSync,
  reducescatter,
  reducescatterSync,
} from './adapters/tensorflow/collectives.ts';
export {
  type Materialised,
  type ShardOptions,
  type ShardTensorsOptions,
  type ShuffleOptions,
  shard,
  shardIndices,
  shardTensors,
  shuffledIndices,
  stepsPerEpoch,
  type TensorDataset,
  type Tensors,
  tensors,
  type Uneven,
  validationSteps,
} from './adapters/tensorflow/dataset/index.ts';
export * as elastic from './adapters/tensorflow/elastic/index.ts';
export {
  getLearningRate,
  getMomentum,
  setLearningRate,
  setMomentum,
} from './adapters/tensorflow/learning-rate.ts';
export type {
  GradientTapeOptions,
  PartialGradientTapeOptions,
  ValueAndGradients,
  VariableGradient,
} from './adapters/tensorflow/optimizer/distributed-gradient-tape.ts';
export {
  type Distributed,
  DistributedOptimizer,
  isDistributed,
  PartialDistributedOptimizer,
  type PartialDistributedOptimizerOptions,
} from './adapters/tensorflow/optimizer/distributed-optimizer.ts';
export {
  type ErrorFeedbackState,
  gatherErrorFeedback,
  restoreErrorFeedback,
  type SavedTensor,
} from './adapters/tensorflow/optimizer/error-feedback.ts';
export {
  DistributedGradientTape,
  PartialDistributedGradientTape,
} from './adapters/tensorflow/optimizer/gradient-tapes.ts';
export type { AnyVariable } from './adapters/tensorflow/optimizer/local-variables.ts';
export type {
  DistributedOptimizerOptions,
  GradientOptions,
} from './adapters/tensorflow/optimizer/options.ts';
export {
  broadcastOptimizerState,
  broadcastOptimizerStateSync,
} from './adapters/tensorflow/optimizer-state.ts';
export {
  SyncBatchNormalization,
  type SyncBatchNormalizationConfig,
} from './adapters/tensorflow/sync-batch-normalization.ts';
export type {
  CollectiveInput,
  CollectiveResult,
  CollectiveResults,
  TensorSource,
} from './adapters/tensorflow/tensor-operands.ts';
export {
  type DataServicePart,
  type DispatcherAddress,
  type DistributeOptions,
  distribute,
  type ProcessingMode,
  type SendToDataServiceOptions,
  sendToDataService,
  TfDataServiceConfig,
  tfDataService,
} from './data/index.ts';
export * from './index.ts';
