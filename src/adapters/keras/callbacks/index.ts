// The callbacks of `horovod/keras`. Each can be made with `new` or, as in Python, without.

import type { CallableClass } from '../../tensorflow/callable-class.ts';
import { BestModelCheckpoint as BestModelCheckpointClass } from './best-model-checkpoint.ts';
import { BroadcastGlobalVariablesCallback as BroadcastGlobalVariablesClass } from './broadcast-global-variables.ts';
import { callbackClass } from './callback-class.ts';
import { LearningRateScheduleCallback as LearningRateScheduleClass } from './learning-rate-schedule.ts';
import { LearningRateWarmupCallback as LearningRateWarmupClass } from './learning-rate-warmup.ts';
import { MetricAverageCallback as MetricAverageClass } from './metric-average.ts';
import { ModelCheckpoint as ModelCheckpointClass } from './model-checkpoint.ts';
import { ProgressCallback as ProgressClass } from './progress.ts';
import { TensorBoard as TensorBoardClass } from './tensorboard.ts';

export type { BestModelCheckpointOptions } from './best-model-checkpoint.ts';
export type { BroadcastGlobalVariablesOptions } from './broadcast-global-variables.ts';
export type { LearningRateScheduleOptions } from './learning-rate-schedule.ts';
export type { LearningRateWarmupOptions } from './learning-rate-warmup.ts';
export { type AnyCallback, type CallbackInstance, list } from './list.ts';
export type { MetricAverageOptions } from './metric-average.ts';
export type { ModelCheckpointOptions } from './model-checkpoint.ts';
export type { ProgressOptions } from './progress.ts';
export type { TensorBoardOptions } from './tensorboard.ts';

export const BestModelCheckpoint: CallableClass<typeof BestModelCheckpointClass> =
  callbackClass(BestModelCheckpointClass);
export type BestModelCheckpoint = BestModelCheckpointClass;

export const BroadcastGlobalVariablesCallback: CallableClass<typeof BroadcastGlobalVariablesClass> =
  callbackClass(BroadcastGlobalVariablesClass);
export type BroadcastGlobalVariablesCallback = BroadcastGlobalVariablesClass;

export const LearningRateScheduleCallback: CallableClass<typeof LearningRateScheduleClass> =
  callbackClass(LearningRateScheduleClass);
export type LearningRateScheduleCallback = LearningRateScheduleClass;

export const LearningRateWarmupCallback: CallableClass<typeof LearningRateWarmupClass> =
  callbackClass(LearningRateWarmupClass);
export type LearningRateWarmupCallback = LearningRateWarmupClass;

export const MetricAverageCallback: CallableClass<typeof MetricAverageClass> =
  callbackClass(MetricAverageClass);
export type MetricAverageCallback = MetricAverageClass;

export const ModelCheckpoint: CallableClass<typeof ModelCheckpointClass> =
  callbackClass(ModelCheckpointClass);
export type ModelCheckpoint = ModelCheckpointClass;

export const ProgressCallback: CallableClass<typeof ProgressClass> = callbackClass(ProgressClass);
export type ProgressCallback = ProgressClass;

export const TensorBoard: CallableClass<typeof TensorBoardClass> = callbackClass(TensorBoardClass);
export type TensorBoard = TensorBoardClass;
