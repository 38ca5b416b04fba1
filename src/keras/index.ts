// The public face of `horovod/keras`: the core, and what tf.layers models add to it.

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
export { type BackendName, type BackendOptions, setBackend } from '../tensorflow/backend/set-backend.ts';
export { broadcastGlobalVariables, broadcastGlobalVariablesSync } from '../tensorflow/broadcast-variables.ts';
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
} from '../tensorflow/dataset/index.ts';
export { getLearningRate, getMomentum, setLearningRate, setMomentum } from '../tensorflow/learning-rate.ts';
export {
  type Distributed,
  DistributedOptimizer,
  PartialDistributedOptimizer,
  type PartialDistributedOptimizerOptions,
} from '../tensorflow/optimizer/distributed-optimizer.ts';
export type { AnyVariable } from '../tensorflow/optimizer/local-variables.ts';
export type { DistributedOptimizerOptions } from '../tensorflow/optimizer/options.ts';
export * as callbacks from './callbacks/index.ts';
export { type CustomObjects, type LoadModelOptions, loadModel } from './load-model.ts';
export { type SaveModelOptions, saveModel } from './save-model.ts';

import { fileHandler, registerFileHandler } from './model-files/file-handler.ts';

export { fileHandler };

// model.save('file://…') and tf.loadLayersModel('file://…') work from here on, also without tfjs-node.
registerFileHandler();
