// hvd.elastic of `horovod/tensorflow`: that of the core, the state of TensorFlow.js, and a sampler that knows tensors.

export * from '../../../elastic/index.ts';
export { resume } from './resume-dataset.ts';
export { ElasticSampler } from './tensor-sampler.ts';
export { type TensorFlowParts, TensorFlowState } from './tensorflow-state.ts';
