// Helpers that divide data among ranks.

export { type ShardTensorsOptions, shard, shardIndices, shardTensors, type Tensors } from './shard.ts';
export { type ShuffleOptions, shuffledIndices } from './shuffled-indices.ts';
export { stepsPerEpoch, validationSteps } from './steps.ts';
export type { ShardOptions, Uneven } from './uneven.ts';
