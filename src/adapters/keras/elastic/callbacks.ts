// Callbacks for elastic training with fit(): they keep count in the state of what is done, and commit it. Those that count come before
// the one that commits.
//
// A commit after batch k says that k + 1 batches are done. The last batch of an epoch is committed with the end of the epoch:
// between the two there is no place from which fit() could start.

import { ElasticSampler } from '../../../elastic/sampler.ts';
import type { State } from '../../../elastic/state.ts';
import { checkNames, invalid } from '../../../operations/check-options.ts';
import { describe } from '../../../tensor/tensor.ts';
import { type FitLogs, HorovodCallback, shareOf } from '../callbacks/horovod-callback.ts';

/** A state that counts batches. */
export type BatchState = State & { batch: number };
/** A state that counts epochs. */
export type EpochState = State & { epoch: number };

export interface CommitStateOptions {
  /** Default: 1. */
  readonly batchesPerCommit?: number | undefined;
}

/** What fit() tells its callbacks; null is what it does not know. */
interface FitParams {
  readonly steps?: number | null;
  readonly samples?: number | null;
  readonly batchSize?: number | null;
}

/** Commits the state after every batch, or every few batches, and at the end of every epoch. After the callbacks that count. */
export class CommitStateCallback extends HorovodCallback {
  readonly #state: State;
  readonly #batchesPerCommit: number;
  #batches = 0;

  constructor(state: State, options: CommitStateOptions = {}) {
    super();
    this.#state = state;
    checkNames(options, ['batchesPerCommit'], 'CommitStateCallback');
    const { batchesPerCommit = 1 } = options;
    if (!Number.isInteger(batchesPerCommit) || batchesPerCommit < 1) {
      throw this.invalid(`batchesPerCommit is a whole number from 1, not ${describe(batchesPerCommit)}`);
    }
    this.#batchesPerCommit = batchesPerCommit;
  }

  override async onTrainBegin(logs?: FitLogs): Promise<void> {
    await super.onTrainBegin(logs);
    this.#batches = 0;
  }

  override async onBatchEnd(batch: number, logs?: FitLogs): Promise<void> {
    await super.onBatchEnd(batch, logs);
    this.#batches += 1;
    if (this.#batches % this.#batchesPerCommit !== 0) return;
    if (isLastBatch(this.#state, batch, batchesOfEpoch(this.params as FitParams))) return;
    this.#commit();
  }

  override async onEpochEnd(epoch: number, logs?: FitLogs): Promise<void> {
    await super.onEpochEnd(epoch, logs);
    this.#commit();
  }

  /** Blocking, as the reduction of gradients in fit() is. */
  #commit(): void {
    for (const end of shareOf(this).endStep) end();
    this.#state.commitSync();
  }
}

/**
 * Keeps state.batch: how many batches of the epoch are done. If training starts again within an epoch, the first epoch is as much shorter.
 * Samplers among the fields of the state are moved on too; then fit() is given what is left by the sampler, and is not cut short.
 */
export class UpdateBatchStateCallback extends HorovodCallback {
  readonly #state: BatchState;
  /** Batches of the epoch that were done before this fit(). */
  #before = 0;
  #isCut = false;

  constructor(state: BatchState) {
    super();
    this.#state = state;
    if (typeof state?.batch !== 'number')
      throw this.invalid(`expected a state with a number batch, not ${describe(state)}`);
  }

  override async onTrainBegin(logs?: FitLogs): Promise<void> {
    await super.onTrainBegin(logs);
    this.#before = this.#state.batch;
    shareOf(this).batchesBefore = this.#before;
    shareOf(this).isRest = samplersOf(this.#state).length > 0;
  }

  override async onBatchEnd(batch: number, logs?: FitLogs): Promise<void> {
    await super.onBatchEnd(batch, logs);
    const samplers = samplersOf(this.#state);
    for (const sampler of samplers) sampler.record();
    this.#state.batch = this.#before + batch + 1;
    const batches = batchesOfEpoch(this.params as FitParams);
    if (samplers.length > 0 || this.#before === 0 || batches === undefined) return;
    if (this.#state.batch < batches || batch + 1 === batches) return;
    // fit() then ends this epoch, and goes on with the next one because it is taken back there.
    this.model.stopTraining = true;
    this.#isCut = true;
  }

  override async onEpochEnd(epoch: number, logs?: FitLogs): Promise<void> {
    await super.onEpochEnd(epoch, logs);
    this.#state.batch = 0;
    this.#before = 0;
    shareOf(this).batchesBefore = 0;
    for (const sampler of samplersOf(this.#state)) sampler.setEpoch(epoch + 1);
    if (this.#isCut) this.model.stopTraining = false;
    this.#isCut = false;
  }
}

/** Keeps state.epoch: how many epochs have ended. Start fit() with `initialEpoch: state.epoch`. */
export class UpdateEpochStateCallback extends HorovodCallback {
  readonly #state: EpochState;

  constructor(state: EpochState) {
    super();
    this.#state = state;
    if (typeof state?.epoch !== 'number')
      throw this.invalid(`expected a state with a number epoch, not ${describe(state)}`);
  }

  override async onEpochEnd(epoch: number, logs?: FitLogs): Promise<void> {
    await super.onEpochEnd(epoch, logs);
    this.#state.epoch = epoch + 1;
  }
}

function samplersOf(state: State): ElasticSampler[] {
  return Object.values(state).filter((value): value is ElasticSampler => value instanceof ElasticSampler);
}

/** Undefined where fit() does not know. */
function batchesOfEpoch({ steps, samples, batchSize }: FitParams): number | undefined {
  if (steps != null) return steps;
  return samples != null && batchSize != null ? Math.ceil(samples / batchSize) : undefined;
}

function isLastBatch(state: State, batch: number, batches: number | undefined): boolean {
  const samplers = samplersOf(state);
  if (samplers.length > 0) return samplers.every(({ stepsLeft }) => stepsLeft === 0);
  const { batch: done } = state as Partial<BatchState>;
  return batches !== undefined && Math.max(typeof done === 'number' ? done : 0, batch + 1) >= batches;
}

/** The three callbacks, in the right order. Before callbacks that end the training (early stopping). */
export function callbacks(state: BatchState & EpochState, options?: CommitStateOptions): HorovodCallback[] {
  if (typeof state !== 'object' || state === null)
    throw invalid('elastic.callbacks()', `expected a state, not ${describe(state)}`);
  return [
    new UpdateBatchStateCallback(state),
    new UpdateEpochStateCallback(state),
    new CommitStateCallback(state, options),
  ];
}
