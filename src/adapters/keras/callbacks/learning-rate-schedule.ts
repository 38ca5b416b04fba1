// Changes the learning rate by epoch: initialLr times a multiplier, once per epoch or with every batch, with
// momentum correction. docs/guide/learning-rate.md has the formulas.

import {
  getLearningRate,
  getMomentum,
  setLearningRate,
  setMomentum,
} from '../../tensorflow/learning-rate.ts';
import { type FitLogs, HorovodCallback, type Membership, shareOf } from './horovod-callback.ts';
import { correctedMomentum, exponentialMultiplier, type Multiplier } from './multipliers.ts';

export interface LearningRateScheduleOptions {
  /** The learning rate that is multiplied: already scaled by the number of ranks. */
  initialLr: number;
  /** A number m gives m^(epoch − startEpoch); a function gets the epoch. */
  multiplier: number | Multiplier;
  /** The first epoch the schedule is active in (0). */
  startEpoch?: number | undefined;
  /** The first epoch after the schedule (never). */
  endEpoch?: number | undefined;
  /** True (the default): once at the start of an epoch. False: every batch, with the epoch as a fraction. */
  staircase?: boolean | undefined;
  /** Correct the momentum at the step that changes the learning rate (true). */
  momentumCorrection?: boolean | undefined;
  /** Batches per epoch, where fit() does not know it: a dataset of unknown size without batchesPerEpoch. */
  stepsPerEpoch?: number | undefined;
}

export class LearningRateScheduleCallback extends HorovodCallback {
  protected readonly initialLr: number;
  protected readonly startEpoch: number;
  protected readonly endEpoch: number;
  protected stepsPerEpoch: number | undefined;
  readonly #givenStepsPerEpoch: number | undefined;
  readonly #multiplier: Multiplier;
  readonly #staircase: boolean;
  readonly #momentumCorrection: boolean;
  #epoch = 0;
  #momentumToRestore: number | undefined;

  constructor(options: LearningRateScheduleOptions, membership?: Membership) {
    super(membership);
    const { initialLr, multiplier, startEpoch = 0, endEpoch, stepsPerEpoch } = options ?? {};
    if (initialLr === undefined || initialLr === null) {
      const others = new.target === LearningRateScheduleCallback ? ', multiplier: 0.5' : '';
      throw this.invalid(
        'Parameter `initialLr` is required. Options are passed as one object: ' +
          `new ${new.target.name}({ initialLr: 0.1${others} })`,
      );
    }
    if (!Number.isFinite(initialLr)) throw this.invalid(`initialLr must be a number, not ${initialLr}`);
    if (typeof multiplier !== 'function' && !Number.isFinite(multiplier)) {
      throw this.invalid(`multiplier must be a number or a function of the epoch, not ${multiplier}`);
    }
    if (stepsPerEpoch !== undefined && !(stepsPerEpoch > 0)) {
      throw this.invalid(`stepsPerEpoch must be a positive number, not ${stepsPerEpoch}`);
    }
    this.initialLr = initialLr;
    this.startEpoch = startEpoch;
    this.endEpoch = endEpoch ?? Number.POSITIVE_INFINITY;
    this.#givenStepsPerEpoch = stepsPerEpoch;
    this.stepsPerEpoch = stepsPerEpoch;
    this.#multiplier =
      typeof multiplier === 'function' ? multiplier : exponentialMultiplier(multiplier, startEpoch);
    this.#staircase = options.staircase ?? true;
    this.#momentumCorrection = options.momentumCorrection ?? true;
  }

  override async onTrainBegin(logs?: FitLogs): Promise<void> {
    await super.onTrainBegin(logs);
    // Of a step that has failed, in an elastic job: the state has its momentum.
    this.#momentumToRestore = undefined;
    // Each time anew: another call of fit() may have other data.
    this.stepsPerEpoch = this.#givenStepsPerEpoch;
    if (!this.#staircase) this.stepsPerEpoch ??= this.#detectStepsPerEpoch();
    shareOf(this).endStep.add(() => this.#restoreMomentum());
  }

  override async onEpochBegin(epoch: number, logs?: FitLogs): Promise<void> {
    await super.onEpochBegin(epoch, logs);
    this.#epoch = epoch;
    if (this.#staircase || this.#givenStepsPerEpoch !== undefined) return;
    const { batchesBefore, isRest } = shareOf(this);
    this.stepsPerEpoch = this.#detectStepsPerEpoch() + (isRest ? batchesBefore : 0);
  }

  override async onBatchBegin(batch: number, logs?: FitLogs): Promise<void> {
    await super.onBatchBegin(batch, logs);
    if (this.#epoch < this.startEpoch || this.#epoch >= this.endEpoch) return;
    const done = shareOf(this).batchesBefore + batch;
    if (!this.#staircase) this.#adjust(this.#epoch + done / (this.stepsPerEpoch as number));
    else if (batch === 0) this.#adjust(this.#epoch);
  }

  override async onBatchEnd(batch: number, logs?: FitLogs): Promise<void> {
    this.#restoreMomentum();
    await super.onBatchEnd(batch, logs);
  }

  override async onEpochEnd(epoch: number, logs?: FitLogs): Promise<void> {
    await super.onEpochEnd(epoch, logs);
    if (logs) logs['lr'] = getLearningRate(this.optimizer);
  }

  /** What initialLr is multiplied by. */
  protected multiplierAt(epoch: number): number {
    return this.#multiplier(epoch);
  }

  #restoreMomentum(): void {
    if (this.#momentumToRestore === undefined) return;
    setMomentum(this.optimizer, this.#momentumToRestore);
    this.#momentumToRestore = undefined;
  }

  #adjust(epoch: number): void {
    const { optimizer } = this;
    const oldLr = getLearningRate(optimizer);
    const newLr = this.initialLr * this.multiplierAt(epoch);
    if (!Number.isFinite(newLr)) {
      throw this.invalid(
        `the multiplier gave ${newLr / this.initialLr} at epoch ${epoch}; it must be a finite number`,
      );
    }
    setLearningRate(optimizer, newLr);
    const momentum = getMomentum(optimizer);
    // Without momentum there is nothing to correct, and a velocity from a learning rate of 0 cannot be scaled.
    if (!this.#momentumCorrection || !momentum || oldLr === 0) return;
    this.#momentumToRestore = momentum;
    setMomentum(optimizer, correctedMomentum(momentum, newLr, oldLr));
  }

  #detectStepsPerEpoch(): number {
    const { steps, samples, batchSize } = this.params as Record<string, number | null | undefined>;
    if (steps) return steps;
    if (samples && batchSize) return Math.ceil(samples / batchSize); // fit() trains on the rest, too
    throw this.invalid(
      'Could not autodetect the number of steps per epoch. Please specify the stepsPerEpoch parameter to the ' +
        `${this.constructor.name}(), or batchesPerEpoch to fitDataset()`,
    );
  }
}
