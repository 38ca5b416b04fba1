// Sums up a timeline: how each rank spent its time, how often and how long each operation ran, and which ranks keep others waiting.
// Memory does not grow with the size of the file.

import { tracks } from '../records.ts';
import { Intervals } from './intervals.ts';
import type { TraceEvent } from './read-trace.ts';
import { StepSeries } from './step-series.ts';

export interface OperationSummary {
  readonly name: string;
  readonly kind: string;
  count: number;
  totalUs: number;
  waitUs: number;
  bytes: number;
  mostBytes: number;
  dtype: string;
  shape: string;
}

export interface RankSummary {
  readonly rank: number;
  /** Number of its process in the file. */
  readonly pid: number;
  /** 'rank 3 (worker-b, pid 4121)' */
  name: string;
  /** Cores that it may use, where the file says so. */
  cores: number | undefined;
  fromUs: number;
  toUs: number;
  operations: number;
  bytes: number;
  errors: number;
  dropped: number;
  steps: number;
  stepUs: number;
  longestStepUs: number;
  samples: number;
  /** FORWARD, BACKPROP, EXPOSED_COMMUNICATION, UPDATE: microseconds. */
  readonly phases: Map<string, number>;
  /** Time with at least one operation in progress. */
  readonly communication: Intervals;
  /** Time with at least one operation waiting for other ranks. */
  readonly waiting: Intervals;
  readonly picture: Picture;
  readonly stepSeries: StepSeries;
}

export interface TraceSummary {
  readonly startedAt: Date | undefined;
  /** The script with its arguments, and the version of this package; undefined in older files. */
  readonly command: string | undefined;
  readonly version: string | undefined;
  readonly ranks: readonly RankSummary[];
  readonly operations: readonly OperationSummary[];
  /** The activities of a rank, one value for each bin of the picture. */
  readonly fromUs: number;
  readonly toUs: number;
}

/** The activities that the picture shows, from bottom to top. */
export const pictureKinds = ['compute', 'communication', 'waiting', 'exposed'] as const;
export type PictureKind = (typeof pictureKinds)[number];

const mostNames = 5000;
const otherName = '(others)';

export class SummaryBuilder {
  readonly #ranks = new Map<number, RankSummary>();
  readonly #operations = new Map<string, OperationSummary>();
  /** The operation that phases on a lane belong to. */
  readonly #current = new Map<string, OperationSummary>();
  #startedAt: Date | undefined;
  #command: string | undefined;
  #version: string | undefined;
  #hasOpening = false;

  add(event: TraceEvent): void {
    const { ph, pid } = event;
    if (ph === 'M') {
      this.#learn(event);
      return;
    }
    const rank = this.#ranks.get(pid);
    if (rank === undefined) return;
    if (ph === 'i') {
      if (event.name === 'EVENTS_DROPPED') rank.dropped += Number(event.args['events'] ?? 0);
      return;
    }
    if (ph !== 'X') return;
    const to = event.ts + event.dur;
    rank.fromUs = Math.min(rank.fromUs, event.ts);
    rank.toUs = Math.max(rank.toUs, to);
    if (event.tid >= tracks.operations) this.#operation(rank, event, to);
    else if (event.tid === tracks.steps) this.#step(rank, event);
    else if (event.tid === tracks.training) this.#phase(rank, event, to);
  }

  /** Undefined if no event came from Horovod. */
  end(): TraceSummary | undefined {
    if (!this.#hasOpening && this.#ranks.size === 0) return undefined;
    const ranks = [...this.#ranks.values()].sort((a, b) => a.rank - b.rank);
    const busy = ranks.filter(({ toUs }) => toUs > 0);
    return {
      startedAt: this.#startedAt,
      command: this.#command,
      version: this.#version,
      ranks,
      operations: [...this.#operations.values()].sort((a, b) => b.totalUs - a.totalUs),
      fromUs: busy.reduce((least, { fromUs }) => Math.min(least, fromUs), Number.MAX_VALUE),
      toUs: busy.reduce((most, { toUs }) => Math.max(most, toUs), 0),
    };
  }

  #learn({ name, pid, args }: TraceEvent): void {
    if (name !== 'process_name') return;
    const epoch = args['start_time_since_epoch_in_micros'];
    if (typeof epoch === 'number') {
      this.#hasOpening = true;
      this.#startedAt = new Date(epoch / 1e3);
      const { command, version } = args;
      if (typeof command === 'string') this.#command = command;
      if (typeof version === 'string') this.#version = version;
      return;
    }
    const found = /^rank (\d+) /.exec(String(args['name']));
    if (found === null || this.#ranks.has(pid)) return;
    this.#ranks.set(pid, {
      rank: Number(found[1]),
      pid,
      name: String(args['name']),
      cores: typeof args['cores'] === 'number' ? args['cores'] : undefined,
      fromUs: Number.MAX_VALUE,
      toUs: 0,
      operations: 0,
      bytes: 0,
      errors: 0,
      dropped: 0,
      steps: 0,
      stepUs: 0,
      longestStepUs: 0,
      samples: 0,
      phases: new Map(),
      communication: new Intervals(),
      waiting: new Intervals(),
      picture: new Picture(),
      stepSeries: new StepSeries(),
    });
  }

  #operation(rank: RankSummary, { name, cat, ts, dur, pid, tid, args }: TraceEvent, to: number): void {
    const lane = `${pid} ${tid}`;
    if (args['kind'] === undefined) {
      if (!name.startsWith('NEGOTIATE')) return;
      const operation = this.#current.get(lane);
      if (operation !== undefined) operation.waitUs += dur;
      rank.waiting.add(ts, to);
      rank.picture.add('waiting', ts, to);
      return;
    }
    const bytes = Number(args['bytes'] ?? 0);
    const operation = this.#named(name, cat);
    this.#current.set(lane, operation);
    operation.count++;
    operation.totalUs += dur;
    operation.bytes += bytes;
    if (bytes >= operation.mostBytes) {
      operation.mostBytes = bytes;
      operation.dtype = String(args['dtype'] ?? '');
      operation.shape = String(args['shape'] ?? '');
    }
    rank.operations++;
    rank.bytes += bytes;
    if (args['error'] !== undefined) rank.errors++;
    rank.communication.add(ts, to);
    rank.picture.add('communication', ts, to);
  }

  #named(name: string, kind: string): OperationSummary {
    const known = this.#operations.get(name);
    if (known !== undefined) return known;
    const key = this.#operations.size < mostNames ? name : otherName;
    const found = this.#operations.get(key);
    if (found !== undefined) return found;
    const sums = { count: 0, totalUs: 0, waitUs: 0, bytes: 0, mostBytes: 0, dtype: '', shape: '' };
    const operation: OperationSummary = { name: key, kind, ...sums };
    this.#operations.set(key, operation);
    return operation;
  }

  #step(rank: RankSummary, { ts, dur, args }: TraceEvent): void {
    rank.steps++;
    rank.stepSeries.add(ts, dur);
    rank.stepUs += dur;
    rank.longestStepUs = Math.max(rank.longestStepUs, dur);
    rank.samples += Number(args['samples'] ?? 0);
  }

  #phase(rank: RankSummary, { name, ts, dur }: TraceEvent, to: number): void {
    rank.phases.set(name, (rank.phases.get(name) ?? 0) + dur);
    rank.picture.add(name === 'EXPOSED_COMMUNICATION' ? 'exposed' : 'compute', ts, to);
  }
}

const bins = 600;

/** A period divided into bins, which hold the time spent on each activity. If the period grows, bins become twice as long. */
export class Picture {
  binUs = 1000;
  readonly filled: Readonly<Record<PictureKind, Float64Array>> = {
    compute: new Float64Array(bins),
    communication: new Float64Array(bins),
    waiting: new Float64Array(bins),
    exposed: new Float64Array(bins),
  };

  add(kind: PictureKind, fromUs: number, toUs: number): void {
    while (toUs >= this.binUs * bins) this.#widen();
    const strip = this.filled[kind];
    const last = Math.floor(toUs / this.binUs);
    for (let bin = Math.max(0, Math.floor(fromUs / this.binUs)); bin <= last; bin++) {
      const start = bin * this.binUs;
      const share = Math.min(toUs, start + this.binUs) - Math.max(fromUs, start);
      strip[bin] = Math.min(this.binUs, (strip[bin] as number) + Math.max(0, share));
    }
  }

  /** Makes it comparable with pictures that have longer bins. */
  widenTo(binUs: number): void {
    while (this.binUs < binUs) this.#widen();
  }

  #widen(): void {
    for (const strip of Object.values(this.filled)) {
      for (let bin = 0; bin < bins / 2; bin++) {
        strip[bin] = (strip[2 * bin] as number) + (strip[2 * bin + 1] as number);
      }
      strip.fill(0, bins / 2);
    }
    this.binUs *= 2;
  }
}
