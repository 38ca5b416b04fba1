// The face of `horovod/tensorboard`: event files that TensorBoard shows, written by one rank.

export type { ImageInput, ImagePixels } from './images.ts';
export { logdir } from './logdir.ts';
export type { HparamValue, Layout } from './summary-message.ts';
export {
  type HistogramOptions,
  type HparamsOptions,
  SummaryWriter,
  type SummaryWriterOptions,
} from './summary-writer.ts';
