// The stall watch of a context: while something is in flight it looks at it, from a timer for promise forms and
// from inside the blocking wait for Sync forms, logs what has waited too long and ends the job when its time is over.

import type { Log } from '../diagnostics/log.ts';
import type { Channel } from '../engine/channel.ts';
import { inspectStalls, type StallLimits } from '../engine/stall-inspector.ts';
import type { HorovodError } from '../errors.ts';
import { nowMs } from './request-parts.ts';

export interface StallWatchHost {
  readonly rank: number;
  readonly limits: StallLimits;
  readonly log: Log;
  channels(): readonly Channel[];
  fail(error: HorovodError): void;
}

export class StallWatch {
  readonly #host: StallWatchHost;
  #timer: NodeJS.Timeout | undefined;

  constructor(host: StallWatchHost) {
    this.#host = host;
  }

  /** Something is in flight: look at it when the time for warnings has come. */
  start(): void {
    const { stallCheck, stallWarningMs } = this.#host.limits;
    if (!stallCheck || stallWarningMs <= 0 || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const channels = this.#host.channels();
      this.inspect(channels);
      if (channels.some((channel) => !channel.isIdle)) this.start();
    }, stallWarningMs);
    this.#timer.unref();
  }

  inspect(channels: readonly Channel[]): void {
    const { limits, log, rank } = this.#host;
    const { warnings, failure } = inspectStalls(channels, limits, nowMs(), rank);
    for (const warning of warnings) log.write('warning', warning);
    if (failure !== undefined) this.#host.fail(failure);
  }

  close(): void {
    clearTimeout(this.#timer);
  }
}
