// The face of `horovod/elastic`, also hvd.elastic: training that continues when ranks are lost, and takes new ones in.

export type { ElasticUneven } from './deal.ts';
export {
  type ElasticFile,
  ElasticFileSampler,
  type ElasticFileSamplerOptions,
  type RecordPlace,
} from './file-sampler.ts';
export { isFailure, isHostsUpdated } from './kinds-of-errors.ts';
export { ObjectState } from './object-state.ts';
export { resume, type StreamSource, type StreamState } from './resume.ts';
export { generation, run, type TrainFunction } from './run.ts';
export type { LostRank, Reset, StatePart, SyncPlan } from './runner.ts';
export { type ElasticBatch, ElasticSampler, type ElasticSamplerOptions } from './sampler.ts';
export { State } from './state.ts';
