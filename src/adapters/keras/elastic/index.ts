// hvd.elastic of `horovod/keras`: that of `horovod/tensorflow`, the state of a model, and callbacks for fit().

import type { CallableClass } from '../../tensorflow/callable-class.ts';
import { callbackClass } from '../callbacks/callback-class.ts';
import {
  CommitStateCallback as CommitStateClass,
  UpdateBatchStateCallback as UpdateBatchStateClass,
  UpdateEpochStateCallback as UpdateEpochStateClass,
} from './callbacks.ts';

export * from '../../tensorflow/elastic/index.ts';
export { type BatchState, type CommitStateOptions, callbacks, type EpochState } from './callbacks.ts';
export { type KerasParts, KerasState } from './keras-state.ts';

export const CommitStateCallback: CallableClass<typeof CommitStateClass> = callbackClass(CommitStateClass);
export type CommitStateCallback = CommitStateClass;

export const UpdateBatchStateCallback: CallableClass<typeof UpdateBatchStateClass> =
  callbackClass(UpdateBatchStateClass);
export type UpdateBatchStateCallback = UpdateBatchStateClass;

export const UpdateEpochStateCallback: CallableClass<typeof UpdateEpochStateClass> =
  callbackClass(UpdateEpochStateClass);
export type UpdateEpochStateCallback = UpdateEpochStateClass;
