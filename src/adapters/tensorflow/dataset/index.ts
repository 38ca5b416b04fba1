// Helpers that divide data among ranks, and datasets of horovod/data as tensors.

export { type ShuffleOptions, shuffledIndices } from '../../../data/shuffled-indices.ts';
export type { ShardOptions, Uneven } from '../../../data/uneven.ts';
export { shardIndices } from '../../data/shard-list.ts';
export { stepsPerEpoch, validationSteps } from '../../data/steps.ts';
export type { Materialised } from './materialise.ts';
export { type ShardTensorsOptions, shard, shardTensors, type Tensors } from './shard.ts';
export { type TensorDataset, tensors } from './tensors.ts';
