// The newest lines of each rank, and of the launcher, for the logs of the dashboard. Memory is limited for each rank, so that one that
// prints megabytes pushes out its own lines only. Lines have numbers that count up over all ranks; their order is that of arrival.

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { LogLine } from './messages.ts';

export interface LogRingOptions {
  /** Of one rank. */
  readonly rankBytes?: number | undefined;
  /** Of all. */
  readonly totalBytes?: number | undefined;
  /** How many ranks share the total. */
  readonly ranks: number;
  readonly now?: (() => number) | undefined;
}

export interface LogQuery {
  /** Undefined: of all ranks. */
  readonly rank?: number | undefined;
  /** Only lines with smaller numbers. */
  readonly before?: number | undefined;
  readonly limit: number;
  /** Upper and lower case are the same. */
  readonly search?: string | undefined;
  readonly stream?: LogLine['stream'] | undefined;
}

const defaultRankBytes = 2 * 2 ** 20;
const defaultTotalBytes = 64 * 2 ** 20;
/** The rest of a longer line is left out. */
const maxLineLength = 8192;
/** What a line takes in memory besides its text. */
const lineOverheadBytes = 120;
/** So many lines are looked at before the process does something else. */
const linesPerTurn = 20_000;

/** The rank number of the launcher's own lines. */
export const launcherRank = -1;

export class LogRing {
  readonly #rankBytes: number;
  readonly #now: () => number;
  readonly #rings = new Map<number, Ring>();
  readonly #listeners = new Set<(line: LogLine) => void>();
  #lastId = 0;

  constructor({ ranks, rankBytes, totalBytes, now = Date.now }: LogRingOptions) {
    // One share more, for the launcher.
    const share = Math.floor((totalBytes ?? defaultTotalBytes) / (ranks + 1));
    this.#rankBytes = Math.min(rankBytes ?? defaultRankBytes, share);
    this.#now = now;
  }

  get lastId(): number {
    return this.#lastId;
  }

  add(rank: number, stream: LogLine['stream'], text: string): void {
    const kept = text.length <= maxLineLength ? text : `${text.slice(0, maxLineLength)}…`;
    const line: LogLine = { id: ++this.#lastId, at: this.#now(), rank, stream, text: kept };
    let ring = this.#rings.get(rank);
    if (ring === undefined) {
      ring = new Ring(this.#rankBytes);
      this.#rings.set(rank, ring);
    }
    ring.add(line);
    for (const listener of this.#listeners) listener(line);
  }

  /** Calls back for each new line. Returns what ends that. */
  listen(listener: (line: LogLine) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** The newest `limit` lines that fit, the oldest first. */
  async find({
    rank,
    before = Number.POSITIVE_INFINITY,
    limit,
    search,
    stream,
  }: LogQuery): Promise<LogLine[]> {
    const rings = rank === undefined ? [...this.#rings.values()] : [this.#rings.get(rank) ?? new Ring(0)];
    // Copies of the lists: lines come and go while this waits.
    const lists = rings.map((ring) => ring.list().filter(({ id }) => id < before));
    const wanted = search?.toLowerCase();
    const found: LogLine[] = [];
    for (let looked = 1; found.length < limit; looked++) {
      const newest = newestOf(lists);
      if (newest === undefined) break;
      const isWanted = wanted === undefined || newest.text.toLowerCase().includes(wanted);
      if (isWanted && (stream === undefined || newest.stream === stream)) found.push(newest);
      if (looked % linesPerTurn === 0) await nextTurn();
    }
    return found.reverse();
  }

  /** The newest `limit` lines of all ranks, the oldest first. */
  newest(limit: number): LogLine[] {
    const newest = [...this.#rings.values()].flatMap((ring) => ring.list().slice(-limit));
    return newest.sort((a, b) => a.id - b.id).slice(-limit);
  }

  /** All that is kept of a rank, the oldest first. */
  linesOf(rank: number): readonly LogLine[] {
    return this.#rings.get(rank)?.list() ?? [];
  }
}

/** Takes the newest line off the lists. */
function newestOf(lists: readonly LogLine[][]): LogLine | undefined {
  let best: LogLine[] | undefined;
  for (const list of lists) {
    const last = list.at(-1);
    if (last !== undefined && (best === undefined || last.id > (best.at(-1) as LogLine).id)) best = list;
  }
  return best?.pop();
}

class Ring {
  readonly #maxBytes: number;
  #lines: LogLine[] = [];
  /** Lines before this one are gone; they are cut off now and then. */
  #first = 0;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  add(line: LogLine): void {
    this.#lines.push(line);
    this.#bytes += sizeOf(line);
    while (this.#bytes > this.#maxBytes && this.#first < this.#lines.length - 1) {
      this.#bytes -= sizeOf(this.#lines[this.#first++] as LogLine);
    }
    if (this.#first <= this.#lines.length / 2) return;
    this.#lines = this.#lines.slice(this.#first);
    this.#first = 0;
  }

  list(): LogLine[] {
    return this.#lines.slice(this.#first);
  }
}

function sizeOf({ text }: LogLine): number {
  return lineOverheadBytes + 2 * text.length;
}
