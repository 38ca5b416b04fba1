// Writes this rank's status page: at most ten times a second while collectives run, so that nearly the last thing that a
// stuck rank did is known, and twice a second while it waits or is idle. Operations and steps compare one number with
// `dueAtMs`; a timer that keeps nothing alive does the rest. A status that cannot be written is no error: watching never
// changes behaviour.

import { type ObservedOperation, type OperationObserver, waitingPeriodMs } from '../../engine/observer.ts';
import type { StepClock, StepMark } from '../../engine/step-clock.ts';
import type { FlightRecorder } from '../flight-recorder/flight-recorder.ts';
import type { LastCollective, PendingCollective, RankStatus, StatusRates } from './rank-status.ts';
import type { StatusBoard } from './status-board.ts';

/** Who writes, and where. */
export interface StatusPlace {
  readonly board: StatusBoard;
  readonly host: string;
  readonly job: string;
}

export interface StatusSource {
  readonly rank: number;
  readonly size: number;
  readonly place: StatusPlace | undefined;
  readonly recorder: FlightRecorder;
  readonly steps: StepClock;
  /** Of the host's monotonic clock, as in flight records. */
  nowMs(): number;
  /** What waits, oldest first. */
  pending(): readonly PendingCollective[];
}

/** What others have to say in this rank's page. */
export type StatusExtras = Pick<RankStatus, 'waitMsPerStep' | 'hasLeft'>;

/** Between two pages of a rank that does nothing; and between two looks at what costs more to find out. */
const periodMs = waitingPeriodMs;
/** Between any two pages. */
const minPeriodMs = 100;
/** Rates are those since the oldest of so many looks. */
const rateLooks = 10;

interface Counts {
  readonly atMs: number;
  readonly step: number;
  readonly samples: number;
  readonly bytes: number;
}

export class StatusWriter implements OperationObserver {
  readonly name = 'the status page';
  /** A page is due when the host's monotonic clock is at or beyond this. */
  dueAtMs = 0;
  readonly #source: StatusSource;
  readonly #counts: Counts[] = [];
  readonly #timer: NodeJS.Timeout | undefined;
  #extras: StatusExtras = {};
  #rssBytes = 0;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #isOver = false;

  constructor(source: StatusSource) {
    this.#source = source;
    if (source.place === undefined) {
      this.dueAtMs = Number.POSITIVE_INFINITY;
      return;
    }
    this.#timer = setInterval(() => {
      // It may come a little early.
      if (source.nowMs() >= this.dueAtMs - minPeriodMs / 10) this.write();
    }, periodMs);
    this.#timer.unref();
  }

  submitted({ submittedAtMs }: ObservedOperation): void {
    if (submittedAtMs >= this.dueAtMs) this.write();
  }

  afterQuick({ finishedAtMs }: ObservedOperation): void {
    if (finishedAtMs >= this.dueAtMs) this.write();
  }

  settled({ finishedAtMs }: ObservedOperation): void {
    if (finishedAtMs >= this.dueAtMs) this.write();
  }

  step({ atMs }: StepMark): void {
    if (atMs >= this.dueAtMs) this.write();
  }

  waiting(): void {
    this.write();
  }

  /** Goes out with the next page. */
  set(extras: StatusExtras): void {
    this.#extras = { ...this.#extras, ...extras };
  }

  write(): void {
    const { place, nowMs } = this.#source;
    if (place === undefined || this.#isOver) return;
    const atMs = nowMs();
    this.dueAtMs = atMs + minPeriodMs;
    try {
      place.board.publish(this.#status(place, atMs));
    } catch {
      // The next one may get through.
    }
  }

  /** What `rank` of this job does, as far as it is known here; undefined where nothing is. */
  read(rank: number): RankStatus | undefined {
    try {
      return this.#source.place?.board.read(rank);
    } catch {
      return undefined;
    }
  }

  /** By rank. */
  readAll(): (RankStatus | undefined)[] {
    return Array.from({ length: this.#source.size }, (_, rank) => this.read(rank));
  }

  /** Writes the last page: this rank leaves. */
  close(): void {
    if (this.#isOver) return;
    clearInterval(this.#timer);
    this.set({ hasLeft: true });
    this.write();
    this.#isOver = true;
    this.dueAtMs = Number.POSITIVE_INFINITY;
  }

  #status({ host, job }: StatusPlace, atMs: number): RankStatus {
    const { rank, recorder, steps, pending } = this.#source;
    const { step, samples } = steps;
    const { bytes, count } = recorder;
    const updatedAt = Date.now();
    const counts = { atMs, step, samples, bytes };
    const rates = this.#ratesOf(counts);
    if (atMs >= this.#lookedAtMs + periodMs * 0.9) this.#look(counts);
    return {
      rank,
      host,
      pid: process.pid,
      job,
      updatedAt,
      step,
      samples,
      collectives: count,
      bytes,
      rates,
      last: this.#last(updatedAt - atMs),
      pending: pending(),
      rssBytes: this.#rssBytes,
      cpuMs: cpuMs(),
      ...this.#extras,
    };
  }

  #last(dateMinusClock: number): LastCollective | undefined {
    const record = this.#source.recorder.last;
    if (record === undefined) return undefined;
    const { sequence, kind, name, state, bytes } = record;
    const clockMs = state === 'done' || state === 'failed' ? record.finishedAtMs : record.submittedAtMs;
    return { sequence, kind, name, state, bytes, atMs: clockMs === 0 ? 0 : clockMs + dateMinusClock };
  }

  #look(counts: Counts): void {
    this.#lookedAtMs = counts.atMs;
    this.#rssBytes = process.memoryUsage.rss();
    this.#counts.push(counts);
    if (this.#counts.length > rateLooks) this.#counts.shift();
  }

  #ratesOf(now: Counts): StatusRates {
    const oldest = this.#counts[0] ?? now;
    const seconds = (now.atMs - oldest.atMs) / 1000;
    const perSecond = (amount: number) => (seconds <= 0 ? 0 : Number((amount / seconds).toPrecision(6)));
    return {
      stepsPerSecond: perSecond(now.step - oldest.step),
      samplesPerSecond: perSecond(now.samples - oldest.samples),
      bytesPerSecond: perSecond(now.bytes - oldest.bytes),
    };
  }
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return Math.round((user + system) / 1000);
}
