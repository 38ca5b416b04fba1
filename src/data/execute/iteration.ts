// One run through the data: keeps a feed busy, runs what has to run in the main thread, and knows where the training loop is. A
// batch counts as taken when next() hands it out; what was computed ahead does not count.

import { streamLength } from '../order/lane-walk.ts';
import { laneOf } from '../order/lanes.ts';
import type { Feed } from './feed.ts';
import { Grouping } from './grouping.ts';
import { driveAsync, driveSync, isPromise, type Steps } from './maybe-async.ts';
import type { Meter } from './metrics.ts';
import { isTensor } from './stack.ts';
import type { Stages } from './stages.ts';
import { type Cursor, type Mark, type Step, type StepsOptions, stepsOfEpoch } from './steps.ts';
import { type Computed, type DamagedRecord, noOrigins } from './work.ts';

/** What a batch tells beside its values; see batchInfo(). */
export interface BatchInfo {
  readonly epoch: number;
  /** Samples of this epoch that are done, by all ranks together, when this batch is. */
  readonly position: number;
  /** What to multiply this rank's mean loss with, so that the average over the ranks is the mean over the step. */
  readonly weight: number;
  /** Samples of all ranks in this step. */
  readonly globalSize: number;
}

export interface Delivered {
  readonly value: unknown;
  /** Where the data set is behind it. */
  readonly position: number;
  /** Undefined where there are no batches. */
  readonly info: BatchInfo | undefined;
}

export interface IterationOptions {
  readonly steps: StepsOptions;
  readonly feed: Feed;
  /** Stages that run in the main thread: up to the batch where the pipeline is uncounted, all others otherwise. */
  readonly local: Stages | undefined;
  /** Stages on batches of uncounted pipelines. */
  readonly afterBatch: Stages | undefined;
  /** Stages of the main thread in front of the cache. */
  readonly beforeCache: Stages | undefined;
  /** Elements by record, for cache(). */
  readonly cache: ElementCache | undefined;
  readonly meter: Meter;
  readonly memoryBytes: number;
  readonly cursor: Cursor;
  /** These steps, and no others: part of an epoch. */
  readonly given?: Iterable<Step> | undefined;
  /** Records were left out. */
  readonly onDamaged?: ((records: readonly DamagedRecord[]) => void) | undefined;
  /** The loop has taken a batch, or an epoch has ended. */
  readonly onTaken: (cursor: Cursor) => void;
}

/** Elements that need not be computed again. */
export interface ElementCache {
  /** The elements of these positions, if all are known. `isSync`: nobody can wait for a promise. */
  find(step: Step, isSync: boolean): Cached | Promise<Cached> | undefined;
  keep(step: Step, rows: readonly number[], values: readonly unknown[]): void;
}

/** Elements, and the row of the step that each comes from. */
export type Cached = Pick<Computed, 'values' | 'rows'>;

type Entry =
  | { readonly kind: 'step'; readonly step: Step; readonly cached: Cached | Promise<Cached> | undefined }
  | { readonly kind: 'end'; readonly epoch: number };

/** A value that next() will hand out. */
interface Output {
  readonly value: unknown;
  readonly step: Step;
  readonly marks: readonly Mark[];
  /** Elements of the last mark's item that are done, if others of it follow. */
  readonly inner: number;
}

/** Values of one item that next() will hand out, where each comes from a position. */
interface Ready {
  readonly step: Step;
  readonly values: readonly unknown[];
  readonly rows: readonly number[];
  next: number;
}

interface Tag {
  readonly step: Step;
  readonly marks: readonly Mark[];
  readonly inner: number;
}

const firstDepth = 2;

export class Iteration {
  readonly #options: IterationOptions;
  readonly #entries: Entry[] = [];
  /** Of uncounted pipelines. */
  readonly #outputs: Output[] = [];
  /** Of all others. */
  #ready: Ready | undefined;
  readonly #grouping: Grouping | undefined;
  #submitted = 0;
  #epoch: number;
  #steps: Iterator<Step, void, undefined>;
  #isExhausted = false;
  /** Parts of this epoch whose end has been seen. */
  readonly #overParts = new Set<number>();
  #depth: number;
  #largestBytes = 1;
  #cursor: Cursor;
  #items: number[] | undefined;
  #inner: number[] | undefined;
  /** Marks of rows that gave nothing; they are done with the next value. */
  #unclaimed: Mark[] = [];
  /** Tags of elements that are in no batch yet. */
  #held: Tag[] = [];
  #madeInEpoch = 0;
  /** Where the data set is when all outputs have been taken: behind the epoch. */
  #afterOutputs: Cursor | undefined;
  #isOver = false;

  constructor(options: IterationOptions) {
    this.#options = options;
    const { cursor, steps } = options;
    const { plan } = steps;
    this.#cursor = cursor;
    this.#epoch = cursor.epoch;
    this.#steps =
      options.given?.[Symbol.iterator]() ?? stepsOfEpoch(steps, cursor, (part) => this.#overParts.has(part));
    this.#grouping = plan.isUncounted && plan.batch !== undefined ? new Grouping(plan.batch) : undefined;
    if (plan.isUncounted) {
      this.#items = [...(cursor.items ?? [])];
      this.#inner = [...(cursor.inner ?? [])];
    }
    this.#depth = plan.prefetch === 'auto' ? firstDepth : plan.prefetch;
  }

  /** What next() would resolve to, if it is there and nothing has to be done before: most elements, where there are no batches. */
  takeReady(): Delivered | undefined {
    const { meter, steps } = this.#options;
    if (this.#ready === undefined || this.#cursor.taken >= steps.plan.total) return undefined;
    meter.ready(performance.now());
    return this.#deliverReady();
  }

  next(): Promise<Delivered | undefined> {
    return driveAsync(this.#next(false));
  }

  nextSync(): Delivered | undefined {
    return driveSync(this.#next(true));
  }

  *#next(isSync: boolean): Steps<Delivered | undefined> {
    const { feed, meter, steps } = this.#options;
    meter.waits(performance.now());
    if (this.#cursor.taken >= steps.plan.total) {
      // take() behind repeat() ends in the middle of an item.
      this.#ready = undefined;
      this.#outputs.length = 0;
    }
    while (this.#outputs.length === 0 && this.#ready === undefined) {
      if (this.#afterOutputs !== undefined) {
        this.#cursor = { ...this.#cursor, epoch: this.#afterOutputs.epoch, position: 0 };
        this.#afterOutputs = undefined;
        this.#options.onTaken(this.#isOver ? { ...this.#cursor, taken: 0 } : this.#cursor);
      }
      if (this.#isOver || this.#cursor.taken >= steps.plan.total) {
        this.#endPass();
        meter.rests();
        return undefined;
      }
      this.#fill(isSync);
      const entry = this.#entries.shift() as Entry;
      if (entry.kind === 'end') {
        yield* this.#endEpoch(entry.epoch);
        continue;
      }
      if (entry.cached !== undefined) {
        const cached = (yield entry.cached) as Cached;
        yield* this.#process(entry.step, { ...cached, damaged: 0 }, true);
        continue;
      }
      const waitsFrom = performance.now();
      const computed = (isSync ? feed.takeSync() : yield feed.take()) as Computed;
      this.#adapt(computed, performance.now() - waitsFrom);
      yield* this.#process(entry.step, computed, false);
    }
    this.#fill(isSync);
    meter.ahead = this.#entries.length;
    meter.aheadLimit = feed.worksAhead ? this.#depth : 1;
    meter.waited(performance.now());
    return this.#deliverReady() ?? this.#deliver(this.#outputs.shift() as Output);
  }

  /** Keeps the feed busy. */
  #fill(isSync: boolean): void {
    const { feed, cache, steps } = this.#options;
    const depth = feed.worksAhead ? this.#depth : 1;
    while (!this.#isExhausted && this.#entries.length < depth) {
      const turn = this.#steps.next();
      if (turn.done) {
        this.#entries.push({ kind: 'end', epoch: this.#epoch });
        this.#epoch += 1;
        this.#isExhausted = this.#epoch % steps.plan.epochs === 0 || this.#options.given !== undefined;
        this.#overParts.clear();
        const cursor = { epoch: this.#epoch, position: 0, taken: 0, items: this.#options.cursor.items };
        this.#steps = stepsOfEpoch(steps, cursor, (part) => this.#overParts.has(part));
        continue;
      }
      const step = turn.value;
      const cached = cache?.find(step, isSync);
      // Whoever takes it gets the error; until then it is not an unhandled rejection.
      if (isPromise(cached)) cached.catch(() => {});
      this.#entries.push({ kind: 'step', step, cached });
      if (cached === undefined) {
        feed.submit({ number: this.#submitted++, epoch: step.epoch, positions: step.positions });
      }
    }
  }

  *#process(step: Step, computed: Computed, isCached: boolean): Steps<void> {
    const { local, beforeCache, cache, meter, steps } = this.#options;
    meter.damaged(computed.damaged);
    if (computed.damagedAt !== undefined) this.#options.onDamaged?.(computed.damagedAt);
    meter.busy(computed.busy);
    meter.retried(computed.retries ?? 0);
    if (cache === undefined && local === undefined && !steps.plan.isUncounted) {
      if (computed.values.length > 0) {
        this.#ready = { step, values: computed.values, rows: computed.rows, next: 0 };
      }
      return;
    }
    let held = computed.values.map((value, place) => ({ value, row: computed.rows[place] as number }));
    const place = { epoch: step.epoch, positions: step.positions, origins: noOrigins };
    if (cache !== undefined && !isCached) {
      if (beforeCache !== undefined) held = yield* beforeCache.run(held, place);
      meter.busy(beforeCache?.takeBusy());
      cache.keep(
        step,
        held.map(({ row }) => row),
        held.map(({ value }) => value),
      );
    }
    if (local !== undefined) held = yield* local.run(held, place);
    meter.busy(local?.takeBusy());
    if (!steps.plan.isUncounted) {
      if (held.length === 0) return;
      this.#ready = {
        step,
        values: held.map(({ value }) => value),
        rows: held.map(({ row }) => row),
        next: 0,
      };
      return;
    }
    let row = 0;
    let countInRow = 0;
    for (const [place, each] of held.entries()) {
      countInRow = held[place - 1]?.row === each.row ? countInRow + 1 : 1;
      const isLastOfRow = held[place + 1]?.row !== each.row;
      for (; row < each.row; row += 1) this.#unclaimed.push(step.markAt(row));
      const mark = step.markAt(each.row) as Extract<Mark, { lane: number }>;
      const isDone = this.#wasDoneBefore(mark, countInRow);
      if (isLastOfRow) {
        this.#unclaimed.push(mark);
        row = each.row + 1;
      }
      if (isDone) continue;
      const tag: Tag = {
        step,
        marks: isLastOfRow ? this.#unclaimed : [...this.#unclaimed, mark],
        inner: isLastOfRow ? 0 : countInRow,
      };
      this.#unclaimed = [];
      yield* this.#add(each.value, tag);
    }
    const end = computed.end ?? step.positions.length;
    for (; row < end; row += 1) this.#unclaimed.push(step.markAt(row));
    if (computed.end !== undefined) this.#endPart(step);
  }

  #endPart({ epoch, positions }: Step): void {
    const part = laneOf(positions[0] as number, this.#options.steps.lanes);
    if (epoch === this.#epoch) this.#overParts.add(part);
    this.#unclaimed.push({ lane: part, items: (epoch + 1) * streamLength });
  }

  /** Of a record whose first elements were taken before the state was saved. Only the first item of a lane can be one. */
  #wasDoneBefore({ lane, items }: { lane: number; items: number }, countInRow: number): boolean {
    const { inner = [], items: before = [] } = this.#options.cursor;
    return (inner[lane] ?? 0) >= countInRow && items === (before[lane] ?? 0) + 1;
  }

  *#add(value: unknown, tag: Tag): Steps<void> {
    if (this.#grouping === undefined) {
      this.#emit(value, [tag]);
      return;
    }
    this.#held.push(tag);
    const made = this.#grouping.add(value, tag);
    if (made !== undefined) yield* this.#emitBatch(made.value, tag);
  }

  *#emitBatch(batch: unknown, last: Tag): Steps<void> {
    const { plan } = this.#options.steps;
    const tags = this.#held;
    this.#held = [];
    const place = this.#madeInEpoch++;
    if (place < plan.steps.skip || place >= plan.steps.skip + plan.steps.take) return;
    const { afterBatch, meter } = this.#options;
    const held = [{ value: batch, row: 0 }];
    const where = { epoch: last.step.epoch, positions: last.step.positions, origins: noOrigins };
    const results = afterBatch === undefined ? held : yield* afterBatch.run(held, where);
    meter.busy(afterBatch?.takeBusy());
    for (const { value } of results) this.#emit(value, tags);
  }

  #emit(value: unknown, tags: readonly Tag[]): void {
    const last = tags.at(-1) as Tag;
    this.#outputs.push({
      value,
      step: last.step,
      marks: tags.flatMap(({ marks }) => marks),
      inner: last.inner,
    });
  }

  *#endEpoch(epoch: number): Steps<void> {
    const { steps, onTaken } = this.#options;
    for (const { value, last } of this.#grouping?.rest() ?? []) {
      yield* this.#emitBatch(value, last as Tag);
    }
    this.#held = [];
    this.#unclaimed = [];
    this.#madeInEpoch = 0;
    this.#isOver = (epoch + 1) % steps.plan.epochs === 0 || this.#options.given !== undefined;
    const { taken } = this.#cursor;
    const next = { ...this.#cursor, epoch: epoch + 1, position: 0, taken: this.#isOver ? 0 : taken };
    if (this.#outputs.length > 0 || this.#ready !== undefined) {
      this.#afterOutputs = next;
      return;
    }
    this.#cursor = next;
    onTaken(next);
  }

  #deliverReady(): Delivered | undefined {
    const ready = this.#ready;
    if (ready === undefined) return undefined;
    const { step, values, rows } = ready;
    const place = ready.next;
    ready.next += 1;
    if (ready.next === values.length) this.#ready = undefined;
    const mark = step.markAt(rows[place] as number);
    const position = 'position' in mark ? mark.position : this.#cursor.position;
    this.#cursor = { epoch: step.epoch, position, taken: this.#cursor.taken + 1 };
    return this.#handOut(values[place], step, position);
  }

  #deliver({ value, step, marks, inner }: Output): Delivered {
    let { position } = this.#cursor;
    for (const mark of marks) {
      if ('position' in mark) position = mark.position;
      else if (this.#items !== undefined) this.#items[mark.lane] = mark.items;
    }
    const last = marks.at(-1);
    if (this.#inner !== undefined && last !== undefined && 'lane' in last) {
      for (const mark of marks) if ('lane' in mark) this.#inner[mark.lane] = 0;
      this.#inner[last.lane] = inner;
      if (inner > 0 && this.#items !== undefined) this.#items[last.lane] = last.items - 1;
    }
    this.#cursor = {
      epoch: step.epoch,
      position,
      taken: this.#cursor.taken + 1,
      ...(this.#items === undefined ? {} : { items: [...this.#items], inner: [...(this.#inner ?? [])] }),
    };
    return this.#handOut(value, step, position);
  }

  #handOut(value: unknown, { epoch, weight, globalSize }: Step, position: number): Delivered {
    const { meter, onTaken, steps } = this.#options;
    onTaken(this.#cursor);
    if (value instanceof Uint8Array) meter.took(1, value.byteLength);
    else {
      const { samples, bytes } = sizeOf(value);
      meter.took(samples, bytes);
    }
    const info = steps.plan.batch === undefined ? undefined : { epoch, position, weight, globalSize };
    return { value, position, info };
  }

  #endPass(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    // take() behind repeat(): the next pass begins with the next multiple of epochs.
    const { epochs } = this.#options.steps.plan;
    const epoch = Number.isFinite(epochs)
      ? (Math.floor(this.#cursor.epoch / epochs) + 1) * epochs
      : this.#cursor.epoch + 1;
    this.#options.onTaken({ epoch, position: 0, taken: 0 });
  }

  /** prefetch('auto'): the loop had to wait, so more is computed ahead, as far as memory allows. */
  #adapt(computed: Computed, waitedMs: number): void {
    const { feed, steps, memoryBytes } = this.#options;
    if (!feed.worksAhead || steps.plan.prefetch !== 'auto') return;
    for (const value of computed.values)
      this.#largestBytes = Math.max(this.#largestBytes, sizeOf(value).bytes);
    const most = Math.max(firstDepth, Math.min(maxDepth, Math.floor(memoryBytes / 2 / this.#largestBytes)));
    if (waitedMs > starvedMs && this.#depth < most) this.#depth += 1;
  }
}

/** Waits shorter than this are no reason to compute further ahead. */
const starvedMs = 0.2;
const maxDepth = 64;

function sizeOf(value: unknown): { samples: number; bytes: number } {
  if (isTensor(value)) return { samples: value.shape[0] ?? 1, bytes: value.data.byteLength };
  if (Array.isArray(value)) return { samples: value.length, bytes: 0 };
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value))
    return { samples: 1, bytes: 0 };
  let [samples, bytes] = [1, 0];
  for (const column of Object.values(value)) {
    if (isTensor(column)) {
      samples = column.shape[0] ?? 1;
      bytes += column.data.byteLength;
    } else if (Array.isArray(column)) samples = column.length;
  }
  return { samples, bytes };
}
