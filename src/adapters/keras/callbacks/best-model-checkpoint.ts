// Saves the model whenever the monitored metric is the best so far. Rank 0 decides and writes. Other ranks take part only if
// they have a part of the optimizer's state (shardOptimizerState): then rank 0 tells them what it decided. As a field of an elastic
// state it keeps the best value when ranks are lost or added.

import type * as tf from '@tensorflow/tfjs';
import type { DataState } from '../../../data/order/state.ts';
import { becomeResumable } from '../../../data/resumable.ts';
import { broadcastObjectSync } from '../../../operations/collectives.ts';
import { currentContext } from '../../context.ts';
import { errorFeedbackOf } from '../../tensorflow/optimizer/error-feedback.ts';
import { shardingOf } from '../../tensorflow/optimizer/sharded/state.ts';
import { formatGeneral } from '../format-number.ts';
import { checkSavable, isShared, saveModel } from '../save-model.ts';
import { type FitLogs, HorovodCallback, type Membership, readLogValue, say } from './horovod-callback.ts';

export interface BestModelCheckpointOptions {
  /** The folder to save into; {epoch} in it becomes the number of the epoch, from 1. */
  filepath: string;
  /** The metric that decides ('val_loss'). */
  monitor?: string | undefined;
  /** Whether less or more is better; 'auto' (the default) knows that more accuracy is. */
  mode?: 'auto' | 'min' | 'max' | undefined;
  /** Save no optimizer state, losses and metrics: training cannot be resumed from it. */
  saveWeightsOnly?: boolean | undefined;
  /** The opposite of saveWeightsOnly (true). */
  includeOptimizer?: boolean | undefined;
  /** The dataset that the model is trained on: its place is saved with the model. See savedDataState(). */
  data?: StatefulData | undefined;
  /** 1: print a line when the model is saved. */
  verbose?: number | undefined;
}

/** A dataset of horovod/data, or what tensors() made of it. */
export interface StatefulData {
  state(): Promise<DataState>;
}

export class BestModelCheckpoint extends HorovodCallback {
  /** The best value so far, of the model that was trained last. */
  best: number;
  readonly #filepath: string;
  readonly #monitor: string;
  readonly #moreIsBetter: boolean;
  readonly #includeOptimizer: boolean;
  readonly #verbose: number;
  readonly #data: StatefulData | undefined;
  #modelOfBest: tf.LayersModel | undefined;

  constructor(options: BestModelCheckpointOptions, membership?: Membership) {
    super(membership);
    const {
      filepath,
      monitor = 'val_loss',
      mode = 'auto',
      saveWeightsOnly = false,
      verbose = 0,
    } = options ?? {};
    if (typeof filepath !== 'string' || filepath === '') {
      throw this.invalid(`filepath must be the folder to save into, not ${JSON.stringify(filepath)}`);
    }
    if (!['auto', 'min', 'max'].includes(mode))
      throw this.invalid(`mode must be 'auto', 'min' or 'max', not ${mode}`);
    this.#filepath = filepath;
    this.#monitor = monitor;
    this.#moreIsBetter = mode === 'max' || (mode === 'auto' && /acc|auc|precision|recall/i.test(monitor));
    this.#includeOptimizer = (options.includeOptimizer ?? true) && !saveWeightsOnly;
    this.#verbose = verbose;
    this.#data = options.data;
    if (this.#data !== undefined && typeof this.#data.state !== 'function') {
      throw this.invalid('data must be a dataset of horovod/data, or what tensors() returned');
    }
    this.best = this.#worst();
    becomeResumable<{ best: number }>(this, {
      place: () => ({ best: this.best }),
      resumeAt: ({ best }) => {
        this.best = best;
      },
    });
  }

  override async onTrainBegin(logs?: FitLogs): Promise<void> {
    await super.onTrainBegin(logs);
    if (this.#includeOptimizer) checkSavable(this.model);
    // Another model than the last time: it has a best of its own.
    if (this.#modelOfBest !== undefined && this.#modelOfBest !== this.model) this.best = this.#worst();
    this.#modelOfBest = this.model;
  }

  override async onEpochEnd(epoch: number, logs: FitLogs = {}): Promise<void> {
    await super.onEpochEnd(epoch, logs);
    // Collective for some pipelines, so on all ranks.
    const data = await this.#data?.state();
    const isOfAll = this.#includeOptimizer && isShared(this.model);
    const { optimizer } = this.model;
    const { processSet } = (isOfAll && (shardingOf(optimizer) ?? errorFeedbackOf(optimizer))) || {};
    const tell = (isBetter: boolean) =>
      isOfAll &&
      broadcastObjectSync(currentContext(), isBetter, processSet?.ranks[0] ?? 0, {
        name: 'BestModelCheckpoint',
        processSet,
      });
    const value = logs[this.#monitor];
    if (this.membership.rank() !== 0) {
      if (tell(false)) await saveModel(this.model, this.#filepath);
      // In an elastic job one of them will decide when rank 0 is lost.
      const current = value === undefined ? this.best : await readLogValue(value);
      if (this.#isBetter(current)) this.best = current;
      return;
    }
    if (value === undefined) {
      throw this.invalid(
        `there is no metric "${this.#monitor}" at the end of an epoch, only ${Object.keys(logs).join(', ')}. ` +
          'A val_ metric needs validationData',
      );
    }
    const current = await readLogValue(value);
    const isBetter = this.#isBetter(current);
    tell(isBetter);
    if (!isBetter) return;
    const path = this.#filepath.replaceAll('{epoch}', String(epoch + 1));
    await saveModel(this.model, path, { includeOptimizer: this.#includeOptimizer, data });
    if (this.#verbose > 0) {
      say(
        `Epoch ${epoch + 1}: ${this.#monitor} improved from ${formatGeneral(this.best)} to ${formatGeneral(current)}, model saved to ${path}`,
      );
    }
    this.best = current;
  }

  #isBetter(value: number): boolean {
    return this.#moreIsBetter ? value > this.best : value < this.best;
  }

  #worst(): number {
    return this.#moreIsBetter ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  }
}
