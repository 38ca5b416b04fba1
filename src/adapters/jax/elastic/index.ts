// hvd.elastic of `horovod/jax`: that of the core, and the state of jax-js.

export * from '../../../elastic/index.ts';
export { type JaxParts, JaxState } from './jax-state.ts';
export type { Trees } from './trees-part.ts';
