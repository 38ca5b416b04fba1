// The stall watch of a context: while something is in flight it looks at it, from a timer for promise forms and
// from inside the blocking wait for Sync forms, logs what has waited too long and ends the job when its time is over.

import type { Log } from '../../console/log.ts';
import { nowMs } from '../../context/request-parts.ts';
import {
  type Activity,
  type ActivitySample,
  activityOf,
  sampleActivity,
} from '../../control/process-activity.ts';
import type { Channel } from '../../engine/channel.ts';
import type { HorovodError } from '../../errors.ts';
import type { FlightDumper } from '../flight-recorder/flight-dumper.ts';
import { describePeer } from '../status/describe-peer.ts';
import { type StatusWriter, statusPeriodMs } from '../status/status-writer.ts';
import { inspectStalls, type StallLimits, stallNotice } from './stall-inspector.ts';

export interface StallWatchHost {
  readonly rank: number;
  readonly limits: StallLimits;
  readonly log: Log;
  readonly dumper: FlightDumper;
  status(): StatusWriter;
  channels(): readonly Channel[];
  fail(error: HorovodError): void;
  /** Process of a rank of this host; 0 or undefined: of another. */
  pidOf(rank: number): number | undefined;
}

/** Processes looked at for what they do instead, at each tick of a wait. */
const sampledLimit = 8;

export class StallWatch {
  readonly #host: StallWatchHost;
  readonly #tickMs: number;
  readonly #samples = new Map<number, { previous: ActivitySample | undefined; latest: ActivitySample }>();
  #timer: NodeJS.Timeout | undefined;

  constructor(host: StallWatchHost) {
    this.#host = host;
    const { stallCheck, stallWarningMs, stallShutdownMs } = host.limits;
    const times = [stallWarningMs, stallShutdownMs].filter((ms) => ms > 0);
    this.#tickMs = stallCheck && times.length > 0 ? Math.min(...times, statusPeriodMs) : 0;
    const notice = stallNotice(host.limits);
    if (notice !== undefined && host.rank === 0) host.log.write('warning', notice);
  }

  /** Something is in flight: look at it when the time for warnings has come. */
  start(): void {
    if (this.#tickMs === 0 || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const channels = this.#host.channels();
      this.inspect(channels);
      if (channels.some((channel) => !channel.isIdle)) this.start();
    }, this.#tickMs);
    this.#timer.unref();
  }

  inspect(channels: readonly Channel[]): void {
    const { limits, log, rank, dumper } = this.#host;
    if (this.#tickMs === 0) return;
    const atMs = nowMs();
    this.#sampleMissing(channels, atMs);
    const { warnings, failure } = inspectStalls(channels, limits, atMs, rank, (peer) => this.describe(peer));
    if (warnings.some(({ isRepeated }) => !isRepeated)) dumper.write('stall');
    const hint = dumper.command === undefined ? '' : ` ${dumper.command} compares what the ranks did.`;
    for (const { text, isFirst } of warnings) log.write(isFirst ? 'warning' : 'info', `${text}${hint}`);
    if (failure !== undefined) this.#host.fail(failure);
  }

  /** What a rank is doing, as far as this one can know. */
  describe(peer: number): string {
    const { pidOf, status } = this.#host;
    const pid = pidOf(peer);
    return describePeer(
      { rank: peer, status: status().read(peer), activity: pid ? this.#activityOf(pid) : 'unknown' },
      Date.now(),
    );
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  /** A process is busy or not over a span of time: looks before there is a reason to ask. */
  #sampleMissing(channels: readonly Channel[], atMs: number): void {
    const { limits, pidOf, rank } = this.#host;
    const soonMs = Math.max(limits.stallWarningMs - 3 * this.#tickMs, this.#tickMs);
    const missing = new Set<number>();
    for (const channel of channels) {
      for (const request of channel.pending) {
        if (atMs - request.submittedAtMs < soonMs) continue;
        for (const member of channel.missingFor(request)) if (member !== rank) missing.add(member);
      }
    }
    if (missing.size === 0) this.#samples.clear();
    for (const member of [...missing].slice(0, sampledLimit)) {
      const pid = pidOf(member);
      const latest = pid ? sampleActivity(pid, atMs) : undefined;
      if (pid && latest !== undefined)
        this.#samples.set(pid, { previous: this.#samples.get(pid)?.latest, latest });
    }
  }

  #activityOf(pid: number): Activity {
    const sample = this.#samples.get(pid);
    return activityOf(sample?.previous, sample?.latest ?? sampleActivity(pid, nowMs()));
  }
}
