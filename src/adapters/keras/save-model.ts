// saveModel(): a checkpoint of a model, written by rank 0, by default with the optimizer's state.

import * as tf from '@tensorflow/tfjs';
import type { DataState } from '../../data/order/state.ts';
import { HorovodError } from '../../errors.ts';
import { rank, showCheckpoint } from '../context.ts';
import { errorFeedbackOf, gatherErrorFeedback } from '../tensorflow/optimizer/error-feedback.ts';
import { shardingOf } from '../tensorflow/optimizer/sharded/state.ts';
import { errorFeedbackBytes } from './model-files/error-feedback-file.ts';
import { fileHandler } from './model-files/file-handler.ts';

export interface SaveModelOptions {
  /** Also save the optimizer, its state, the losses and metrics, so that training can be resumed. Default: true. */
  includeOptimizer?: boolean | undefined;
  /** The state of the dataset that the model is trained on, to go on in the same place: see savedDataState(). For paths and URLs. */
  data?: DataState | undefined;
}

/**
 * Saves a model into a folder, atomically. Rank 0 writes; other ranks return at once, because all ranks have the same weights.
 * If they need the file, call barrier(). All ranks must call it if the optimizer is saved too and its state is sharded, or its
 * compression has error feedback: then each rank has a part. Error feedback is saved to paths and URLs, not to handlers.
 */
export async function saveModel(
  model: tf.LayersModel,
  location: string | URL | tf.io.IOHandler,
  options: SaveModelOptions = {},
): Promise<void> {
  const { includeOptimizer = true, data } = options;
  const isOfAll = includeOptimizer && isShared(model);
  if (rank() !== 0 && !isOfAll) return;
  if (includeOptimizer) checkSavable(model);
  const isPlace = typeof location === 'string' || location instanceof URL;
  const kept = isOfAll && isPlace ? await errorFeedbackIn(model) : undefined;
  if (rank() !== 0) {
    await disposingCopies(model.optimizer, () => model.optimizer.getWeights());
    return;
  }
  const handler = isPlace ? fileHandler(location, { errorFeedback: kept, data }) : location;
  await disposingCopies(model.optimizer, () => model.save(handler, { includeOptimizer }));
  if (isPlace) showCheckpoint(location);
}

/** Disposes of what model.save() leaks: the number of steps, which getWeights() makes as a tensor. */
async function disposingCopies<R>(optimizer: tf.Optimizer | undefined, save: () => Promise<R>): Promise<R> {
  if (!optimizer) return save();
  const isOwn = Object.hasOwn(optimizer, 'getWeights');
  const getWeights = optimizer.getWeights;
  const copies: tf.Tensor[] = [];
  optimizer.getWeights = async () => {
    const weights = await getWeights.call(optimizer);
    copies.push(...weights.map(({ tensor }) => tensor).filter((tensor) => !(tensor instanceof tf.Variable)));
    return weights;
  };
  try {
    return await save();
  } finally {
    if (isOwn) optimizer.getWeights = getWeights;
    else Reflect.deleteProperty(optimizer, 'getWeights');
    tf.dispose(copies);
  }
}

/** Whether the optimizer's state is spread over ranks, so that all must take part in saving it. */
export function isShared({ optimizer }: tf.LayersModel): boolean {
  if (!optimizer) return false;
  return shardingOf(optimizer) !== undefined || errorFeedbackOf(optimizer) !== undefined;
}

async function errorFeedbackIn(
  model: tf.LayersModel,
): Promise<ReturnType<typeof errorFeedbackBytes> | undefined> {
  const state = await gatherErrorFeedback(model.optimizer, model.trainableWeights as never);
  return state?.tensors.some((tensor) => tensor !== null) ? errorFeedbackBytes(state) : undefined;
}

/** Rejects an optimizer whose state TensorFlow.js cannot save before training starts. */
export function checkSavable(model: tf.LayersModel): void {
  if (model.optimizer?.getClassName() !== 'Adamax') return;
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    'TensorFlow.js cannot save the state of Adamax (its getWeights() is not implemented), so training could not be ' +
      'resumed. Save with { includeOptimizer: false }, or train with Adam.',
  );
}
