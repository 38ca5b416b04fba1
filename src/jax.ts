// The public face of `horovod/jax`: the core, and what jax-js adds to it. The collectives listed here replace those of
// the core: they take and return jax-js arrays and trees of them, too.

export {
  allgather,
  allgatherSync,
  allreduce,
  allreduceSync,
  allreduceTree,
  allreduceTreeSync,
  broadcast,
  broadcastParameters,
  broadcastParametersSync,
  broadcastSync,
} from './adapters/jax/collectives.ts';
export { type ArraysOf, arrays } from './adapters/jax/dataset.ts';
export { setDevice } from './adapters/jax/device.ts';
export {
  type AggregationState,
  DistributedOptimizer,
  type DistributedOptimizerOptions,
  type DistributedTransformation,
  type GradientOptions,
} from './adapters/jax/distributed-optimizer.ts';
export * as elastic from './adapters/jax/elastic/index.ts';
export {
  type AdamOptions,
  type AdamState,
  adam,
  applyUpdates,
  type GradientTransformation,
  type SgdOptions,
  sgd,
} from './adapters/jax/optimizers.ts';
export { type ValueAndGradOptions, valueAndGrad, valueAndGradSync } from './adapters/jax/value-and-grad.ts';
export * from './index.ts';
