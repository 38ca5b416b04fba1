// What the callbacks of this folder have in common: the rank they run on, reading log values, and giving the event
// loop a turn. model.fit() awaits callbacks but may otherwise not return to the event loop for hundreds of batches;
// timers, signal handlers and promise collectives of the user's script need it now and then.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../errors.ts';
import { rank, size } from '../../context.ts';
import { expectBatch } from '../../tensorflow/optimizer/distributed-optimizer.ts';

/** What fit() hands to callbacks: values may still be tensors, whose owner is fit(). */
export type FitLogs = { [metric: string]: number | tf.Scalar };

/** Which rank of how many this is. Given to callbacks by tests only. */
export interface Membership {
  rank(): number;
  size(): number;
}

export const defaultMembership: Membership = { rank, size };

/** As often as TensorFlow.js's own callbacks do. */
const turnEveryMs = 125;

export abstract class HorovodCallback extends tf.Callback {
  #lastTurnAt = performance.now();

  /** Says how many samples the step will have. Subclasses that have an onBatchBegin() of their own call this one. */
  override async onBatchBegin(_batch: number, logs?: FitLogs): Promise<void> {
    const optimizer = this.model?.optimizer;
    if (optimizer && logs) expectBatch(optimizer, logs);
  }

  /** Subclasses that have an onBatchEnd() of their own call this one. */
  override async onBatchEnd(_batch: number, _logs?: FitLogs): Promise<void> {
    if (performance.now() - this.#lastTurnAt < turnEveryMs) return;
    await new Promise((resolve) => setImmediate(resolve));
    this.#lastTurnAt = performance.now();
  }

  /** The optimizer of the model being trained. */
  protected get optimizer(): tf.Optimizer {
    const optimizer = this.model?.optimizer;
    if (optimizer) return optimizer;
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${this.constructor.name}: the model has no optimizer. Call model.compile() before model.fit().`,
    );
  }
}

/** Says a line on stdout. On a terminal it takes the place of the progress line, which may stand there unfinished. */
export function say(text: string): void {
  console.log(`${process.stdout.isTTY ? '\r\x1b[2K' : ''}${text}`);
}

/** A log value as a number; the tensor stays the property of fit(). */
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
