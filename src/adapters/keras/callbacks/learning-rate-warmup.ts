// Gradual warm-up: the learning rate rises with every batch from initialLr / size to initialLr over the first epochs.
// A large rate at once, which many ranks ask for, would throw a fresh model far off.

import { formatGeneral } from '../format-number.ts';
import { defaultMembership, type FitLogs, type Membership, say } from './horovod-callback.ts';
import { LearningRateScheduleCallback } from './learning-rate-schedule.ts';
import { warmupMultiplier } from './multipliers.ts';

export interface LearningRateWarmupOptions {
  /** The learning rate to arrive at: already scaled by the number of ranks. */
  initialLr: number;
  /** Epochs it takes (5). */
  warmupEpochs?: number | undefined;
  /** Correct the momentum at every step (true). */
  momentumCorrection?: boolean | undefined;
  /** Batches per epoch, where fit() does not know it. */
  stepsPerEpoch?: number | undefined;
  /** 1: rank 0 says when the warm-up is over. */
  verbose?: number | undefined;
}

export class LearningRateWarmupCallback extends LearningRateScheduleCallback {
  readonly #verbose: number;
  readonly #membership: Membership;

  constructor(options: LearningRateWarmupOptions, membership: Membership = defaultMembership) {
    const { initialLr, warmupEpochs = 5, momentumCorrection, stepsPerEpoch, verbose = 0 } = options ?? {};
    super({
      initialLr: initialLr as number,
      // The number of ranks is asked for at every batch: it may change while the job runs.
      multiplier: (epoch) =>
        warmupMultiplier(membership.size(), warmupEpochs, this.stepsPerEpoch as number)(epoch),
      startEpoch: 0,
      endEpoch: warmupEpochs,
      staircase: false,
      momentumCorrection,
      stepsPerEpoch,
    });
    this.#verbose = verbose;
    this.#membership = membership;
  }

  override async onEpochEnd(epoch: number, logs?: FitLogs): Promise<void> {
    await super.onEpochEnd(epoch, logs);
    if (epoch !== this.endEpoch - 1 || this.#verbose <= 0 || this.#membership.rank() !== 0) return;
    const lr = formatGeneral(Number(logs?.['lr'] ?? this.initialLr));
    say(`Epoch ${epoch + 1}: finished gradual learning rate warmup to ${lr}.`);
  }
}
