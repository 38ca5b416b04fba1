// Helpers that divide data among ranks.

export { type ShuffleOptions, shuffledIndices } from '../../../data/order/shuffled-indices.ts';
export type { ShardOptions, Uneven } from '../../../data/order/uneven.ts';
export { shardIndices } from '../../data/shard-list.ts';
export { stepsPerEpoch, validationSteps } from '../../data/steps.ts';
export { type ShardTensorsOptions, shard, shardTensors, type Tensors } from './shard.ts';
