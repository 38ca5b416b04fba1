// Gradual warm-up: the learning rate rises with every batch from initialLr / size to initialLr over the first epochs.
// A newly initialized model can diverge at the high learning rate that many ranks need.

import { formatGeneral } from '../format-number.ts';
import { type FitLogs, type Membership, say } from './horovod-callback.ts';
import { LearningRateScheduleCallback } from './learning-rate-schedule.ts';
import { warmupMultiplier } from './multipliers.ts';

export interface LearningRateWarmupOptions {
  /** The learning rate after the warm-up: already scaled by the number of ranks. */
  initialLr: number;
  /** Epochs it takes (5). */
  warmupEpochs?: number | undefined;
  /** Correct the momentum at every step (true). */
  momentumCorrection?: boolean | undefined;
  /** Batches per epoch, where fit() does not know it. */
  stepsPerEpoch?: number | undefined;
  /** 1: rank 0 prints a line when the warm-up is over. */
  verbose?: number | undefined;
}

export class LearningRateWarmupCallback extends LearningRateScheduleCallback {
  readonly #verbose: number;

  constructor(options: LearningRateWarmupOptions, membership?: Membership) {
    const { initialLr, warmupEpochs = 5, momentumCorrection, stepsPerEpoch, verbose = 0 } = options ?? {};
    // The number of ranks is read at every batch: it may change while the job runs.
    const multiplier = (epoch: number) =>
      warmupMultiplier(this.membership.size(), warmupEpochs, this.stepsPerEpoch as number)(epoch);
    const schedule = { initialLr, multiplier, startEpoch: 0, endEpoch: warmupEpochs, staircase: false };
    super({ ...schedule, momentumCorrection, stepsPerEpoch }, membership);
    this.#verbose = verbose;
  }

  override async onEpochEnd(epoch: number, logs?: FitLogs): Promise<void> {
    await super.onEpochEnd(epoch, logs);
    if (epoch !== this.endEpoch - 1 || this.#verbose <= 0 || this.membership.rank() !== 0) return;
    const lr = formatGeneral(Number(logs?.['lr'] ?? this.initialLr));
    say(`Epoch ${epoch + 1}: finished gradual learning rate warmup to ${lr}.`);
  }
}
