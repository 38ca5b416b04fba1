// The newest values that this rank has given to logMetrics(). They go out with its status page, so logging one only stores a number:
// no collective, no message, and no memory once a name is known.

import { HorovodError } from '../../errors.ts';
import { describe } from '../../tensor/tensor.ts';

/** Together at most 1.5 of the 4 KiB of a status page. */
export const maxMetrics = 16;
export const maxMetricNameLength = 48;

export class LoggedMetrics {
  readonly #values = new Map<string, number>();

  /** Throws for what is no metric; what stands before that is kept. */
  log(metrics: Readonly<Record<string, number>>): void {
    if (typeof metrics !== 'object' || metrics === null)
      throw wrong(`expected an object such as { loss: 0.5 }, not ${describe(metrics)}`);
    for (const name in metrics) {
      const value = metrics[name] as number;
      if (typeof value !== 'number')
        throw wrong(`${JSON.stringify(name)} must be a number, not ${describe(value)}`);
      if (this.keep(name, value)) continue;
      throw wrong(
        name === '' || name.length > maxMetricNameLength
          ? `a name must have 1 to ${maxMetricNameLength} characters, not ${name.length}: ${JSON.stringify(name.slice(0, 80))}`
          : `a rank shows at most ${maxMetrics} metrics, and ${JSON.stringify(name)} would be one more. Leave out some; for curves of any number of values, use SummaryWriter of horovod/tensorboard`,
      );
    }
  }

  /** Whether there was room for it. NaN and infinite values are kept as such. */
  keep(name: string, value: number): boolean {
    if (!this.#values.has(name)) {
      if (this.#values.size >= maxMetrics || name === '' || name.length > maxMetricNameLength) return false;
    }
    this.#values.set(name, value);
    return true;
  }

  /** In the order in which their names came first; undefined: there are none. */
  get list(): readonly (readonly [name: string, value: number])[] | undefined {
    return this.#values.size === 0 ? undefined : [...this.#values];
  }
}

function wrong(what: string): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `logMetrics: ${what}.`);
}
