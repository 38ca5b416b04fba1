// What the callbacks of this folder have in common: the rank they run on, reading log values, and letting the event loop run.
// model.fit() awaits callbacks but may otherwise not return to the event loop for hundreds of batches; timers, signal handlers
// and promise collectives of the user's script need it now and then.

import * as tf from '@tensorflow/tfjs';
import type { HorovodError } from '../../../errors.ts';
import { invalid } from '../../check-options.ts';
import { rank, size } from '../../context.ts';
import { expectBatch } from '../../tensorflow/optimizer/distributed-optimizer.ts';

/** What fit() passes to callbacks: values may still be tensors, which belong to fit(). */
export type FitLogs = { [metric: string]: number | tf.Scalar };

/** Which rank of how many this is. Only tests pass one. */
export interface Membership {
  rank(): number;
  size(): number;
}

/** As often as TensorFlow.js's own callbacks do. */
const turnEveryMs = 125;

export abstract class HorovodCallback extends tf.Callback {
  protected readonly membership: Membership;
  #lastTurnAt = performance.now();

  constructor(membership: Membership = { rank, size }) {
    super();
    this.membership = membership;
  }

  /** Reports how many samples the step will have. Subclasses that override it call it. */
  override async onBatchBegin(_batch: number, logs?: FitLogs): Promise<void> {
    const optimizer = this.model?.optimizer;
    if (optimizer && logs) expectBatch(optimizer, logs);
  }

  /** Subclasses that override it call it. */
  override async onBatchEnd(_batch: number, _logs?: FitLogs): Promise<void> {
    if (performance.now() - this.#lastTurnAt < turnEveryMs) return;
    await new Promise((resolve) => setImmediate(resolve));
    this.#lastTurnAt = performance.now();
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

/** Prints a line on stdout. On a terminal it replaces the progress line, which may be unfinished. */
export function say(text: string): void {
  console.log(`${process.stdout.isTTY ? '\r\x1b[2K' : ''}${text}`);
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
