// The face of `horovod/ray`: jobs whose ranks run in the actors of a Ray cluster.

export { type RayRunOptions, run } from './run.ts';
