// What the training loop sees of a job: the batches that its consumer was granted, in the order in which they are due, and where the
// loop is. The consumer runs elsewhere (consumer-host.ts); this is plain bookkeeping in the main thread.

import { HorovodError } from '../../errors.ts';
import { ProtocolError } from '../../net/frames.ts';
import { inSeconds } from '../../net/wait.ts';
import type { Steps } from '../execute/maybe-async.ts';
import { errorOf } from '../execute/thread-messages.ts';
import { decodeValue } from './batch-bytes.ts';
import type { ConsumerHost } from './consumer-host.ts';
import type { ConsumerEvent } from './consumer-messages.ts';
import type { Layout } from './layout.ts';
import type { BatchId, Cut } from './ledger-state.ts';
import { LentMemory } from './lent-memory.ts';
import { including, type Ranges } from './ranges.ts';
import type { Waits } from './trainer-waits.ts';

export interface OpenedJob {
  readonly layout: Layout;
  readonly lengths: readonly (number | null)[];
  readonly index: readonly string[];
}

type Batch = Extract<ConsumerEvent, { kind: 'batch' }>;

/** What was taken since the era began, of the last two epochs: ranges of ordinals by group. */
export type TakenRanges = Readonly<Record<number, readonly Ranges[]>>;

export interface Taken {
  readonly id: BatchId;
  readonly value: unknown;
  /** It was in no batch: all of its records were damaged. */
  readonly isEmpty: boolean;
  /** Made a second time, to fill up the last round. */
  readonly isRepeat: boolean;
  /** How many this consumer has taken of the epoch, with this one. */
  readonly count: number;
}

/** Smaller values get memory of their own, so that whoever keeps one keeps no batch. */
const smallBytes = 16 * 1024;

/** `next()`: the epoch has ended. */
export const epochEnd: unique symbol = Symbol('epochEnd');

export class ServiceSession {
  readonly #host: ConsumerHost;
  readonly #silenceMs: number;
  readonly #warn: (text: string) => void;
  readonly #lent = new LentMemory();
  #opened: OpenedJob | undefined;
  /** Undefined: not open yet, or a restore() is under way. */
  #era: number | undefined;
  #base: Cut | undefined;
  #epoch = 0;
  #count = 0;
  #queue: Batch[] = [];
  #ended = -1;
  #taken: Record<number, Ranges[]> = {};
  #mark = 0;
  #cut: Cut | undefined;
  #attempt: number | undefined;
  #error: HorovodError | Error | undefined;
  #state = 'for the dispatcher';

  /** `silenceMs`: how long nothing may come while the loop waits. */
  constructor(host: ConsumerHost, silenceMs: number, warn: (text: string) => void = () => {}) {
    this.#host = host;
    this.#silenceMs = silenceMs;
    this.#warn = warn;
    host.listen((event) => this.#receive(event));
  }

  get epoch(): number {
    return this.#epoch;
  }

  get opened(): OpenedJob | undefined {
    return this.#opened;
  }

  /** next() does not have to wait. */
  get isReady(): boolean {
    return this.#due() !== undefined || (this.#era !== undefined && this.#ended >= this.#epoch);
  }

  /** Batches that are here and not taken. */
  get ahead(): number {
    return this.#queue.length;
  }

  /** Where the era began, and what this consumer has taken since. */
  get progress(): { base: Cut; taken: TakenRanges; epoch: number } | undefined {
    return this.#base && { base: this.#base, taken: this.#taken, epoch: this.#epoch };
  }

  *open(isSync: boolean): Steps<OpenedJob> {
    yield* this.#wait(() => this.#opened, isSync);
    return this.#opened as OpenedJob;
  }

  /** The next batch, which does not count as taken before taken() is called. */
  *next(isSync: boolean): Steps<Taken | typeof epochEnd> {
    const found = (yield* this.#wait(() => this.#due() ?? this.#endOfEpoch(), isSync)) as
      | Batch
      | typeof epochEnd;
    if (found === epochEnd) return epochEnd;
    this.#queue.splice(this.#queue.indexOf(found), 1);
    this.#count += 1;
    const { id, value, payload } = found;
    const isRepeat = id.group === this.#opened?.lengths.length;
    const about = { id, isRepeat, count: this.#count };
    if (value === undefined) return { ...about, value: undefined, isEmpty: true };
    try {
      const decoded = decodeValue(value, payload ?? new Uint8Array(), smallBytes);
      if (payload !== undefined) this.#lent.lend(decoded, payload.buffer);
      return { ...about, value: decoded, isEmpty: false };
    } catch (cause) {
      if (!(cause instanceof ProtocolError)) throw cause;
      throw new HorovodError('ERR_HVD_DATA_SERVICE', `data service: a compute worker sent ${cause.message}.`);
    }
  }

  /** The loop has it: it is not given to anybody again. */
  taken(id: BatchId): void {
    const era = this.#era;
    if (era === undefined) return;
    let groups = this.#taken[id.epoch];
    if (groups === undefined) {
      groups = [];
      this.#taken[id.epoch] = groups;
      for (const epoch of Object.keys(this.#taken))
        if (Number(epoch) < id.epoch - 1) delete this.#taken[Number(epoch)];
    }
    groups[id.group] = including(groups[id.group] ?? [], id.ordinal);
    this.#host.order({ kind: 'taken', era, id });
  }

  /** The loop does not need the values of this batch any more. */
  release(batch: unknown): void {
    const buffer = this.#lent.giveBack(batch);
    if (buffer !== undefined) this.#host.order({ kind: 'memory', buffer });
  }

  /** How long the loop waits: shown elsewhere. */
  tell(waits: Waits): void {
    this.#host.order({ kind: 'waits', ...waits });
  }

  /** A consistent cut: all consumers call it at the same step. */
  async cut(drive: <R>(steps: Steps<R>) => Promise<R>): Promise<Cut> {
    await drive(this.#wait(() => this.#era, false));
    this.#mark += 1;
    this.#cut = undefined;
    this.#host.order({ kind: 'mark', number: this.#mark });
    return (await drive(this.#wait(() => this.#cut, false))) as Cut;
  }

  /** Goes to a cut, with all of so many consumers. Later next() waits until all have called it. */
  restore(attempt: number, consumers: number, cut: Cut): void {
    this.#era = undefined;
    this.#attempt = attempt;
    this.#queue = [];
    this.#begin(cut);
    this.#host.order({ kind: 'restore', attempt, consumers, cut });
  }

  async close(): Promise<void> {
    this.#error ??= new HorovodError('ERR_HVD_STALE', 'this part of the data service was closed.');
    await this.#host.close();
  }

  #begin(cut: Cut): void {
    this.#base = cut;
    this.#epoch = cut.epoch;
    this.#count = 0;
    this.#ended = -1;
    this.#taken = {};
    this.#mark = 0;
    this.#cut = undefined;
  }

  #due(): Batch | undefined {
    if (this.#era === undefined) return undefined;
    return this.#queue.find(
      ({ id, round }) => id.epoch === this.#epoch && (round === null || round === this.#count),
    );
  }

  #endOfEpoch(): typeof epochEnd | undefined {
    if (this.#era === undefined || this.#ended < this.#epoch) return undefined;
    this.#epoch += 1;
    this.#count = 0;
    return epochEnd;
  }

  *#wait<T>(find: () => T | undefined, isSync: boolean): Steps<T> {
    for (;;) {
      if (isSync) this.#host.drain();
      const found = find();
      if (found !== undefined) return found;
      if (this.#error !== undefined) throw this.#error;
      const isAwake = isSync ? this.#host.waitSync(this.#silenceMs) : yield this.#host.wait(this.#silenceMs);
      if (isAwake !== true) throw this.#silence();
    }
  }

  #silence(): HorovodError {
    const what =
      this.#attempt !== undefined && this.#era === undefined ? 'for restore() of all trainers' : this.#state;
    return new HorovodError(
      'ERR_HVD_TIMEOUT',
      `data service: waited ${inSeconds(this.#silenceMs)} ${what}, and nothing has come. Either a function of the pipeline does not return, or another trainer does not take its batches. If it only needs longer, raise HOROVOD_TIMEOUT_SECONDS.`,
    );
  }

  #receive(event: ConsumerEvent): void {
    switch (event.kind) {
      case 'opened': {
        const { layout, lengths, index, era, cut } = event;
        this.#opened = { layout, lengths, index };
        if (this.#attempt !== undefined) return;
        this.#era = era;
        this.#begin(cut);
        return;
      }
      case 'batch':
        if (event.era === this.#era) this.#queue.push(event);
        return;
      case 'epoch-ended':
        if (event.era === this.#era) this.#ended = Math.max(this.#ended, event.epoch);
        return;
      case 'cut':
        if (event.era === this.#era && event.number === this.#mark) this.#cut = event.cut;
        return;
      case 'restored':
        if (event.attempt !== this.#attempt) return;
        this.#era = event.era;
        this.#begin(event.cut);
        return;
      case 'state':
        this.#state = event.text;
        return;
      case 'warning':
        this.#warn(event.text);
        return;
      case 'failed':
        this.#error ??= errorOf(event.error);
        return;
      default:
        event satisfies never;
    }
  }
}
