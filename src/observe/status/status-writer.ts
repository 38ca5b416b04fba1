// Writes the status page of this rank: at most ten times a second while collectives run, so that the page of a stuck rank shows almost
// its last operation, and twice a second while it waits or is idle. Operations and steps only compare one number with `dueAtMs`; an
// unreferenced timer does the rest. If a page cannot be written this is not an error, because watching never changes behaviour.

import { busyShare } from '../../control/process-activity.ts';
import { type ObservedOperation, type OperationObserver, waitingPeriodMs } from '../../engine/observer.ts';
import type { StepClock, StepMark } from '../../engine/step-clock.ts';
import type { FlightRecorder } from '../flight-recorder/flight-recorder.ts';
import { LoggedMetrics } from './logged-metrics.ts';
import type {
  DataStatus,
  LastCollective,
  PendingCollective,
  RankStatus,
  StatusRates,
} from './rank-status.ts';
import type { StatusBoard } from './status-board.ts';

/** The rank that writes, and where. */
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
  /** Pending operations, oldest first. */
  pending(): readonly PendingCollective[];
  /** How long training waits for its data. */
  data?(nowMs: number): DataStatus | undefined;
  /** For tests: processor time of this process so far. */
  cpuMs?(): number;
}

/** Fields of the page that other modules provide. */
export type StatusExtras = Pick<
  RankStatus,
  'waitMsPerStep' | 'exposedMsPerStep' | 'stepOf' | 'epoch' | 'epochs' | 'checkpoint' | 'hasLeft'
>;

/** Between two pages of an idle rank, and between two samples of values that are expensive to read. */
const periodMs = waitingPeriodMs;
/** The minimum between two pages. */
const minPeriodMs = 100;
/** Rates are computed over this many samples. */
const rateLooks = 10;

/** A sample. Two samples show whether this rank is idle. */
interface Look {
  readonly atMs: number;
  /** Date.now() */
  readonly date: number;
  readonly cpuMs: number;
  readonly collectives: number;
}

interface Counts {
  readonly atMs: number;
  readonly step: number;
  readonly samples: number;
  readonly bytes: number;
  readonly cpuMs: number;
}

export class StatusWriter implements OperationObserver {
  readonly name = 'the status page';
  /** A page is due when the host's monotonic clock is at or beyond this. */
  dueAtMs = 0;
  readonly metrics: LoggedMetrics = new LoggedMetrics();
  readonly #source: StatusSource;
  readonly #counts: Counts[] = [];
  readonly #timer: NodeJS.Timeout | undefined;
  #extras: StatusExtras = {};
  #rssBytes = 0;
  #data: DataStatus | undefined;
  #lastLook: Look | undefined;
  #idleSince: number | undefined;
  #isOver = false;

  constructor(source: StatusSource) {
    this.#source = source;
    if (source.place === undefined) {
      this.dueAtMs = Number.POSITIVE_INFINITY;
      return;
    }
    this.#timer = setInterval(() => {
      // The timer may fire a little early.
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

  /** What other modules have set. */
  get extras(): StatusExtras {
    return this.#extras;
  }

  /** Written with the next page. */
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
      // The next one may succeed.
    }
  }

  /** What `rank` of this job is doing; undefined if nothing is known. */
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

  /** Writes the last page when this rank leaves. */
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
    const cpuMs = (this.#source.cpuMs ?? ownCpuMs)();
    const counts = { atMs, step, samples, bytes, cpuMs };
    const rates = this.#ratesOf(counts);
    const busyCores = this.#busyCores(counts);
    const waiting = pending();
    const look = { atMs, date: updatedAt, cpuMs, collectives: count };
    const isSilent = waiting.length === 0 && count === (this.#lastLook?.collectives ?? count);
    if (!isSilent) this.#idleSince = undefined;
    if (this.#lastLook === undefined || atMs >= this.#lastLook.atMs + periodMs * 0.9) {
      this.#look(look, counts, isSilent);
    }
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
      pending: waiting,
      rssBytes: this.#rssBytes,
      cpuMs,
      busyCores,
      idleSince: this.#idleSince,
      metrics: this.metrics.list,
      data: this.#data,
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

  #look(look: Look, counts: Counts, isSilent: boolean): void {
    const before = this.#lastLook;
    this.#lastLook = look;
    const isIdle =
      before !== undefined && (look.cpuMs - before.cpuMs) / (look.atMs - before.atMs) < busyShare && isSilent;
    this.#idleSince = isIdle ? (this.#idleSince ?? before.date) : undefined;
    this.#rssBytes = process.memoryUsage.rss();
    this.#data = this.#source.data?.(look.atMs);
    this.#counts.push(counts);
    if (this.#counts.length > rateLooks) this.#counts.shift();
  }

  #busyCores(now: Counts): number | undefined {
    const oldest = this.#counts[0];
    if (oldest === undefined || now.atMs <= oldest.atMs) return undefined;
    return Number(((now.cpuMs - oldest.cpuMs) / (now.atMs - oldest.atMs)).toFixed(2));
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

function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return Math.round((user + system) / 1000);
}
