// Saves the model after every epoch. Rank 0 writes. Other ranks take part only if they have a part of the optimizer's state.

import { checkSavable, saveModel } from '../save-model.ts';
import { type FitLogs, HorovodCallback, type Membership, say } from './horovod-callback.ts';

export interface ModelCheckpointOptions {
  /** The folder to save into, on any file system; {epoch} in it becomes the number of the epoch, from 1. */
  filepath: string;
  /** Save no optimizer state, losses and metrics: training cannot be resumed from it. */
  saveWeightsOnly?: boolean | undefined;
  /** The opposite of saveWeightsOnly (true). */
  includeOptimizer?: boolean | undefined;
  /** 1: print a line when the model is saved. */
  verbose?: number | undefined;
}

export class ModelCheckpoint extends HorovodCallback {
  readonly #filepath: string;
  readonly #includeOptimizer: boolean;
  readonly #verbose: number;

  constructor(options: string | ModelCheckpointOptions, membership?: Membership) {
    super(membership);
    const given: Partial<ModelCheckpointOptions> =
      typeof options === 'string' ? { filepath: options } : (options ?? {});
    const { filepath, saveWeightsOnly = false, includeOptimizer = true, verbose = 0 } = given;
    if (typeof filepath !== 'string' || filepath === '') {
      throw this.invalid(`filepath must be the folder to save into, not ${JSON.stringify(filepath)}`);
    }
    this.#filepath = filepath;
    this.#includeOptimizer = includeOptimizer && !saveWeightsOnly;
    this.#verbose = verbose;
  }

  override async onTrainBegin(logs?: FitLogs): Promise<void> {
    await super.onTrainBegin(logs);
    if (this.#includeOptimizer) checkSavable(this.model);
  }

  override async onEpochEnd(epoch: number, logs: FitLogs = {}): Promise<void> {
    await super.onEpochEnd(epoch, logs);
    const path = this.#filepath.replaceAll('{epoch}', String(epoch + 1));
    await saveModel(this.model, path, { includeOptimizer: this.#includeOptimizer });
    if (this.#verbose > 0 && this.membership.rank() === 0) say(`Epoch ${epoch + 1}: model saved to ${path}`);
  }
}
