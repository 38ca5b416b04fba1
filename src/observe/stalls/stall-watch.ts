// The stall watch of a rank: while something is in flight it looks at it, from a timer for promise forms and from inside
// the blocking wait for Sync forms. It logs what has waited too long, and ends the job after HOROVOD_STALL_SHUTDOWN_TIME.

import { nowMs } from '../../engine/clock.ts';
import { type OperationObserver, waitingPeriodMs } from '../../engine/observer.ts';
import type { FlightDumper } from '../flight-recorder/flight-dumper.ts';
import { channelsOf, type ObservedRank } from '../observed-rank.ts';
import type { Peers } from './peers.ts';
import { inspectStalls, type StallLimits, stallNotice, type WarnedRequests } from './stall-inspector.ts';

export interface StallWatchOptions {
  readonly limits: StallLimits;
  readonly dumper: FlightDumper;
  readonly peers: Peers;
}

export class StallWatch implements OperationObserver {
  readonly name = 'the stall check';
  readonly #watched: ObservedRank;
  readonly #options: StallWatchOptions;
  readonly #warned: WarnedRequests = new WeakMap();
  /** 0: there is nothing to look for. */
  readonly #periodMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(watched: ObservedRank, options: StallWatchOptions) {
    this.#watched = watched;
    this.#options = options;
    const { stallCheck, stallWarningMs, stallShutdownMs } = options.limits;
    const times = [stallWarningMs, stallShutdownMs].filter((ms) => ms > 0);
    this.#periodMs = stallCheck && times.length > 0 ? Math.min(...times, waitingPeriodMs) : 0;
    const notice = stallNotice(options.limits);
    if (notice !== undefined && watched.rank === 0) watched.log.write('warning', notice);
  }

  launched(): void {
    if (this.#periodMs === 0 || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#inspect();
      if (channelsOf(this.#watched).some((channel) => !channel.isIdle)) this.launched();
    }, this.#periodMs);
    this.#timer.unref();
  }

  waiting(): void {
    this.#inspect();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #inspect(): void {
    const { rank, log } = this.#watched;
    const { limits, dumper, peers } = this.#options;
    if (this.#periodMs === 0) return;
    const atMs = nowMs();
    peers.sample(this.#soonMissing(atMs), atMs);
    const { warnings, failure } = inspectStalls({
      channels: channelsOf(this.#watched),
      limits,
      nowMs: atMs,
      rank,
      warned: this.#warned,
      describePeer: (peer) => peers.describe(peer),
    });
    if (warnings.some(({ isRepeated }) => !isRepeated)) dumper.write('stall');
    const hint = dumper.command === undefined ? '' : ` ${dumper.command} compares what the ranks did.`;
    for (const { text, isFirst } of warnings) log.write(isFirst ? 'warning' : 'info', `${text}${hint}`);
    if (failure !== undefined) this.#watched.fail(failure);
  }

  /** The ranks that are missing where a warning is near. */
  #soonMissing(atMs: number): number[] {
    const soonMs = Math.max(this.#options.limits.stallWarningMs - 3 * this.#periodMs, this.#periodMs);
    const missing = new Set<number>();
    for (const channel of channelsOf(this.#watched)) {
      for (const request of channel.pending) {
        if (atMs - request.submittedAtMs < soonMs) continue;
        for (const member of channel.missingFor(request)) missing.add(member);
      }
    }
    missing.delete(this.#watched.rank);
    return [...missing];
  }
}
