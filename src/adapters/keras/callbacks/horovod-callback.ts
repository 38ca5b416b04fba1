// What the callbacks of this folder have in common: the rank they run on, reading log values, letting the event loop run, and
// saying where in its training the rank is: if ranks have different numbers of batches, errors can say so.
// model.fit() awaits callbacks but may otherwise not return to the event loop for hundreds of batches; timers, signal handlers
// and promise collectives of the user's script need it now and then.

import * as tf from '@tensorflow/tfjs';
import { terminalOf } from '../../../console/terminal.ts';
import type { HorovodError } from '../../../errors.ts';
import { invalid } from '../../../operations/check-options.ts';
import {
  currentContext,
  isInitialized,
  type LateRank,
  lateRank,
  logOfRankZero,
  rank,
  showMetrics,
  showPosition,
  size,
  trainingSteps,
} from '../../context.ts';
import { expectBatch, guardOf, isDistributed } from '../../tensorflow/optimizer/distributed-optimizer.ts';

/** What fit() passes to callbacks: values may still be tensors, which belong to fit(). */
export type FitLogs = { [metric: string]: number | tf.Scalar };

/** Which rank of how many this is. Only tests pass one. */
export interface Membership {
  rank(): number;
  size(): number;
  lateRank?(): LateRank | undefined;
}

/** What the callbacks of one fit() know of each other. */
export interface FitShare {
  /** Batches of this epoch that were done before fit() was called: it has started again, in an elastic job. */
  batchesBefore: number;
  /** fit() was given only the rest of the epoch. */
  isRest: boolean;
  /** Ends what was set for one step only. A commit calls it: it may come before the other callbacks hear of the end of the batch. */
  readonly endStep: Set<() => void>;
  /** Steps before this epoch. */
  stepsBefore: number;
  /** Gradients of several batches may make one step. */
  batchesPerStep: number;
}

const shareKey = Symbol('horovod.fit');

/** fit() gives all its callbacks the same object of parameters. */
export function shareOf(callback: HorovodCallback): FitShare {
  const params = (callback.params ?? {}) as { [shareKey]?: FitShare };
  params[shareKey] ??= {
    batchesBefore: 0,
    isRest: false,
    endStep: new Set(),
    stepsBefore: 0,
    batchesPerStep: 1,
  };
  return params[shareKey];
}

/** As often as TensorFlow.js's own callbacks do. */
const turnEveryMs = 125;

export abstract class HorovodCallback extends tf.Callback {
  protected readonly membership: Membership;
  #lastTurnAt = performance.now();
  #epoch = 0;
  #hasModel = true;

  constructor(membership: Membership = { rank, size, lateRank }) {
    super();
    this.membership = membership;
  }

  /** What fit() calls first, for each callback of its list; then setModel(), before it returns to the event loop. */
  override setParams(params: never): void {
    super.setParams(params);
    this.#hasModel = false;
    queueMicrotask(() => {
      if (!this.#hasModel) logOfRankZero()?.write('warning', brokenList);
    });
  }

  override setModel(model: never): void {
    super.setModel(model);
    this.#hasModel = true;
  }

  /** Subclasses that override it call it, first. */
  override async onTrainBegin(_logs?: FitLogs): Promise<void> {
    // In a list that begins with a plain object, fit() takes callbacks apart and calls their methods as functions.
    if (!(this instanceof HorovodCallback)) throw invalid('callbacks', mixedList);
    const optimizer = this.model?.optimizer;
    if (!optimizer || !isInitialized() || currentContext().world.size === 1) return;
    if (isDistributed(optimizer)) guardOf(optimizer)?.expectEpochs();
    else warnUnwrapped(optimizer);
  }

  /** Subclasses that override it call it, first. */
  override async onEpochBegin(epoch: number, _logs?: FitLogs): Promise<void> {
    trainingSteps()?.beginEpoch(epoch + 1);
    this.#epoch = epoch;
    shareOf(this).stepsBefore = trainingSteps()?.step ?? 0;
    this.#showPosition(0);
  }

  /** Subclasses that override it call it, first. */
  override async onEpochEnd(_epoch: number, logs: FitLogs = {}): Promise<void> {
    trainingSteps()?.endEpoch();
    const optimizer = this.model?.optimizer;
    if (optimizer) guardOf(optimizer)?.epochEnded();
    showMetrics(await readLogs(logs));
  }

  /** Subclasses that override it call it, first. */
  override async onTrainEnd(_logs?: FitLogs): Promise<void> {
    trainingSteps()?.endTraining();
  }

  /** Reports how many samples the step will have. Subclasses that override it call it. */
  override async onBatchBegin(_batch: number, logs?: FitLogs): Promise<void> {
    const optimizer = this.model?.optimizer;
    if (optimizer && logs) expectBatch(optimizer, logs);
  }

  /** Subclasses that override it call it. */
  override async onBatchEnd(batch: number, logs: FitLogs = {}): Promise<void> {
    trainingSteps()?.endBatch(batch + 1);
    if (performance.now() - this.#lastTurnAt < turnEveryMs) return;
    const { batch: _batch, size: _size, ...metrics } = await readLogs(logs);
    showMetrics(metrics);
    this.#showPosition(batch + 1);
    await new Promise((resolve) => setImmediate(resolve));
    this.#lastTurnAt = performance.now();
  }

  /** Shows where fit() is, after so many batches of this epoch. */
  #showPosition(batches: number): void {
    const { epochs } = (this.params ?? {}) as { epochs?: number };
    const steps = trainingSteps();
    if (epochs === undefined || steps === undefined) return;
    const share = shareOf(this);
    const perEpoch = this.batchesPerEpoch();
    // The first epoch may be the rest of one, after which whole ones follow.
    const wholeEpoch = (perEpoch ?? 0) + (share.isRest ? share.batchesBefore : 0);
    const left = (perEpoch ?? 0) - batches + (epochs - this.#epoch - 1) * wholeEpoch;
    const stepsDone = steps.step - share.stepsBefore;
    if (stepsDone > 0) share.batchesPerStep = Math.max(1, Math.round(batches / stepsDone));
    showPosition({
      epoch: this.#epoch + 1,
      epochs,
      stepsLeft: perEpoch === undefined ? undefined : Math.round(Math.max(left, 0) / share.batchesPerStep),
    });
  }

  /** As far as fit() knows. */
  protected batchesPerEpoch(): number | undefined {
    const { steps, samples, batchSize } = (this.params ?? {}) as Record<string, number | null | undefined>;
    if (steps) return steps;
    return samples && batchSize ? Math.ceil(samples / batchSize) : undefined;
  }

  /** The optimizer of the model being trained. */
  protected get optimizer(): tf.Optimizer {
    const optimizer = this.model?.optimizer;
    if (optimizer) return optimizer;
    throw this.invalid('the model has no optimizer. Call model.compile() before model.fit()');
  }

  protected invalid(reason: string): HorovodError {
    return invalid(this.constructor.name, reason);
  }
}

const mixedList =
  'the list that fit() was given begins with a plain object, and then fit() takes only plain objects. Write ' +
  'callbacks: hvd.callbacks.list([…]), which takes both kinds in any order';

const brokenList =
  'fit() has stopped while it read its callbacks. If the list has plain objects ({ onEpochEnd() {} }) beside callbacks made with new, ' +
  'write callbacks: hvd.callbacks.list([…]), which takes both kinds in any order.';

/** Once for each optimizer, however many callbacks there are. */
function warnUnwrapped(optimizer: tf.Optimizer): void {
  if (unwrapped.has(optimizer) || !currentContext().checksDivergence) return;
  unwrapped.add(optimizer);
  logOfRankZero()?.write(
    'warning',
    `fit(): the optimizer of this model (${optimizer.getClassName()}) is not distributed: each rank trains a model of its own. Write ` +
      'model.compile({ optimizer: hvd.DistributedOptimizer(tf.train.adam(0.001)), … }), or, if the model is compiled already, ' +
      'hvd.DistributedOptimizer(model.optimizer) before fit().',
  );
}

const unwrapped = new WeakSet<tf.Optimizer>();

/** Prints a line on stdout. On a terminal it replaces the progress line, which may be unfinished. */
export function say(text: string): void {
  const terminal = terminalOf(process.stdout);
  if (terminal === undefined) console.log(text);
  else terminal.print(text);
}

/** A log value as a number; the tensor still belongs to fit(). */
export async function readLogValue(value: number | tf.Scalar): Promise<number> {
  return typeof value === 'number' ? value : ((await value.data())[0] ?? Number.NaN);
}

/** Every log value as a number. */
export async function readLogs(logs: FitLogs): Promise<Record<string, number>> {
  const entries = Object.entries(logs).map(
    async ([metric, value]) => [metric, await readLogValue(value)] as const,
  );
  return Object.fromEntries(await Promise.all(entries));
}
