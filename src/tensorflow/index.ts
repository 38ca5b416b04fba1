// The public face of `horovod/tensorflow`: the core, and what TensorFlow.js adds to it.

export {
  Adasum,
  Average,
  addProcessSet,
  allgatherObject,
  allgatherObjectSync,
  alloc,
  barrier,
  barrierSync,
  broadcastObject,
  broadcastObjectSync,
  type CollectiveRecord,
  Compression,
  type Compressor,
  crossRank,
  crossSize,
  cudaBuilt,
  type ErrorCode,
  flightRecord,
  globalProcessSet,
  glooBuilt,
  glooEnabled,
  HorovodError,
  type InitOptions,
  init,
  isHomogeneous,
  isInitialized,
  join,
  joinSync,
  localRank,
  localSize,
  Max,
  Min,
  mpiBuilt,
  mpiEnabled,
  nativeBuilt,
  ncclBuilt,
  ProcessSet,
  Product,
  planeName,
  type ReduceOp,
  rank,
  removeProcessSet,
  Sum,
  shutdown,
  size,
} from '../index.ts';
export { type BackendName, type BackendOptions, setBackend } from './backend/set-backend.ts';
export {
  broadcastGlobalVariables,
  broadcastGlobalVariablesSync,
  broadcastVariables,
  broadcastVariablesSync,
  type VariableList,
} from './broadcast-variables.ts';
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
} from './collectives.ts';
export {
  type ShardOptions,
  type ShardTensorsOptions,
  type ShuffleOptions,
  shard,
  shardIndices,
  shardTensors,
  shuffledIndices,
  stepsPerEpoch,
  type Tensors,
  type Uneven,
  validationSteps,
} from './dataset/index.ts';
export {
  getLearningRate,
  getMomentum,
  setLearningRate,
  setMomentum,
} from './learning-rate.ts';
export {
  DistributedGradientTape,
  type GradientTapeOptions,
  PartialDistributedGradientTape,
  type PartialGradientTapeOptions,
  type ValueAndGradients,
  type VariableGradient,
} from './optimizer/distributed-gradient-tape.ts';
export {
  type Distributed,
  DistributedOptimizer,
  isDistributed,
  PartialDistributedOptimizer,
  type PartialDistributedOptimizerOptions,
} from './optimizer/distributed-optimizer.ts';
export type { AnyVariable } from './optimizer/local-variables.ts';
export type { DistributedOptimizerOptions, GradientOptions } from './optimizer/options.ts';
export { broadcastOptimizerState, broadcastOptimizerStateSync } from './optimizer-state.ts';
export { SyncBatchNormalization, type SyncBatchNormalizationConfig } from './sync-batch-normalization.ts';
export type {
  CollectiveInput,
  CollectiveResult,
  CollectiveResults,
  TensorSource,
} from './tensor-operands.ts';
