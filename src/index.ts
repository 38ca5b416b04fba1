// The public face of `horovod`. Everything a user may call is listed here; docs/reference/api.d.ts shows changes.

export { shard, shardIndices } from './adapters/data/shard-list.ts';
export {
  allgather,
  allgatherObject,
  allgatherObjectSync,
  allgatherSync,
  allreduce,
  allreduceSync,
  alltoall,
  alltoallSync,
  barrier,
  barrierSync,
  broadcast,
  broadcastObject,
  broadcastObjectSync,
  broadcastSync,
  groupedAllgather,
  groupedAllgatherSync,
  groupedAllreduce,
  groupedAllreduceSync,
  groupedReducescatter,
  groupedReducescatterSync,
  join,
  joinSync,
  prepareAllreduce,
  prepareAllreduceSync,
  reducescatter,
  reducescatterSync,
} from './context/default/default-collectives.ts';
export { globalProcessSet, init, isInitialized, shutdown } from './context/default/default-context.ts';
export {
  addProcessSet,
  alloc,
  crossRank,
  crossSize,
  cudaBuilt,
  flightRecord,
  glooBuilt,
  glooEnabled,
  isHomogeneous,
  localRank,
  localSize,
  logMetrics,
  markStep,
  mpiBuilt,
  mpiEnabled,
  nativeBuilt,
  ncclBuilt,
  rank,
  removeProcessSet,
  size,
  transportName,
} from './context/default/default-membership.ts';
export { startTimeline, stopTimeline } from './context/default/default-timeline.ts';
export type { InitOptions } from './context/start/bootstrap.ts';
export { type ShuffleOptions, shuffledIndices } from './data/shuffled-indices.ts';
export type { ShardOptions, Uneven } from './data/uneven.ts';
export * as elastic from './elastic/index.ts';
export { type ErrorCode, HorovodError, type HorovodErrorDetails } from './errors.ts';
export {
  type DashboardChoice,
  type DiscoveredHost,
  type JobOptions,
  type JobView,
  type RunOptions,
  run,
} from './launch/run/run.ts';
export type { CollectiveRecord } from './observe/flight-recorder/flight-recorder.ts';
export type { TimelineOptions } from './observe/timeline/timeline.ts';
export type {
  AllreduceOptions,
  AlltoallOptions,
  AlltoallResult,
  BroadcastOptions,
  CollectiveOptions,
  ReduceOptions,
} from './operations/options.ts';
export type { PreparedCollective, StartedCollective } from './operations/prepared.ts';
export { ProcessSet, type ProcessSetWorld } from './operations/process-set.ts';
export { Compression, type CompressionName } from './tensor/compression/compression.ts';
export type {
  AnyCompressor,
  CompressibleTensor,
  CompressionGroup,
  Compressor,
  ReducingCompressor,
} from './tensor/compression/compressor.ts';
export type { Int8Options } from './tensor/compression/int8.ts';
export type { PowerSgdOptions } from './tensor/compression/powersgd.ts';
export type { TopKOptions } from './tensor/compression/top-k.ts';
export { type Wire, type WireOperation, wire } from './tensor/compression/wire.ts';
export type { DType, TypedArray } from './tensor/dtype.ts';
export {
  Adasum,
  Average,
  Max,
  Min,
  Product,
  type ReduceOp,
  type ReduceOpName,
  Sum,
} from './tensor/reduce-op.ts';
export { type Tensor, type TensorLike, tensor } from './tensor/tensor.ts';
export type { TransportName } from './transport/transport.ts';
