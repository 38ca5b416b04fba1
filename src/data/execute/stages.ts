// Runs the stages of a plan on the records of one item: parse, map, filter, flatMap, batch. The same code runs in the main
// thread, in compute threads and in compute workers.

import { HorovodError } from '../../errors.ts';
import { shownLocation } from '../../files/location.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import { elementsIn, type Tensor } from '../../tensor/tensor.ts';
import type { AsyncDecoder, Decoder } from '../formats/format.ts';
import { keyOf, randomFractions } from '../order/random.ts';
import { describeReference, type ElementFunction, isReference } from '../plan/function-reference.ts';
import type { ArrayColumn, FunctionNode, StageNode } from '../plan/nodes.ts';
import { BusyTimes, type StageTimes } from './busy-times.ts';
import { computeTwice, isComputedTwice } from './compute-twice.ts';
import { isPromise, type Steps } from './maybe-async.ts';
import { RecordCopies } from './record-copies.ts';
import { type Allocate, arrayFor, stackElements } from './stack.ts';
import { type Computed, type Origins, originAt, type ReadItem, type SampleOrigin } from './work.ts';

/** How the records of the source become elements. */
export type Rows =
  | { readonly kind: 'bytes' }
  | { readonly kind: 'decoder'; readonly decoder: Decoder | AsyncDecoder; readonly isSingle?: boolean }
  | { readonly kind: 'elements' }
  | { readonly kind: 'arrays'; readonly columns: readonly ArrayColumn[] }
  | { readonly kind: 'range'; readonly start: number };

export interface StagesOptions {
  readonly rows: Rows;
  readonly stages: readonly StageNode[];
  /** Number of the first stage among all of the plan: random numbers depend on it. */
  readonly firstStage: number;
  /** Those of the stages, undefined where a stage has none. */
  readonly functions: readonly (ElementFunction | undefined)[];
  readonly seed: number;
  readonly allocate: Allocate;
  /** HOROVOD_DATA_CHECK. Default: false. */
  readonly checksRepeats?: boolean | undefined;
}

/** A value on its way, with the row of the item it comes from. */
interface Held {
  value: unknown;
  readonly row: number;
}

/** Where in the data a value is. */
interface Place {
  readonly epoch: number;
  readonly positions: readonly number[];
  readonly origins: Origins;
}

export class Stages {
  readonly #options: StagesOptions;
  readonly #busy = new BusyTimes();

  constructor(options: StagesOptions) {
    this.#options = options;
  }

  compute(read: ReadItem): Steps<Computed> {
    const { checksRepeats, seed, stages } = this.#options;
    if (checksRepeats !== true || !isComputedTwice(seed, read)) return this.#compute(read);
    const functions = stages.filter((stage) => 'fn' in stage).map(nameOfStage);
    return computeTwice((each) => this.#compute(each), read, functions);
  }

  *#compute(read: ReadItem): Steps<Computed> {
    const { stages, rows, allocate } = this.#options;
    const startedAt = performance.now();
    const place = { epoch: read.item.epoch, positions: read.item.positions, origins: read.origins };
    const filled = stages[0]?.node === 'batch' ? yield* fillBatch(read, rows, allocate) : undefined;
    const count = read.item.positions.length;
    let held: Held[];
    let damaged: number;
    if (filled === undefined) {
      held = yield* this.#elements(read);
      damaged = count - held.length;
    } else {
      held = filled.value === undefined ? [] : [{ value: filled.value, row: count - 1 }];
      ({ damaged } = filled);
    }
    const first = rows.kind === 'decoder' ? 'parse' : filled === undefined ? 'copy' : 'batch';
    this.#busy.add(first, performance.now() - startedAt);
    held = yield* this.run(held, place, filled === undefined ? 0 : 1);
    this.#busy.addAll(read.busy);
    const computed = {
      values: held.map(({ value }) => value),
      rows: held.map(({ row }) => row),
      damaged: damaged + (read.damaged ?? 0),
      busy: this.#busy.take(),
      retries: read.retries,
      damagedAt: read.damagedAt,
    };
    return read.isEnd ? { ...computed, end: count } : computed;
  }

  /** How long the stages were busy since the last time. */
  takeBusy(): StageTimes | undefined {
    return this.#busy.take();
  }

  /** Runs the stages from number `from` on. A batch comes from the last row of its elements. */
  *run(held: Held[], place: Place, from = 0): Steps<Held[]> {
    const { stages, functions, allocate, firstStage } = this.#options;
    let current = held;
    for (let number = from; number < stages.length; number += 1) {
      const stage = stages[number] as StageNode;
      const startedAt = performance.now();
      switch (stage.node) {
        case 'map':
        case 'filter':
        case 'flatMap': {
          const fn = functions[number] as ElementFunction;
          current = yield* this.#apply(stage, fn, firstStage + number, current, place);
          break;
        }
        case 'batch':
        case 'paddedBatch': {
          if (current.length === 0) return [];
          const padding = stage.node === 'paddedBatch' ? stage.padding : undefined;
          const value = stackElements(
            current.map(({ value: each }) => each),
            { allocate, padding },
          );
          current = [{ value, row: (current.at(-1) as Held).row }];
          break;
        }
        default:
          throw new Error(`${stage.node} is no stage of this kind`);
      }
      this.#busy.add(nameOfStage(stage), performance.now() - startedAt);
    }
    return current;
  }

  *#elements(read: ReadItem): Steps<Held[]> {
    const { rows, allocate } = this.#options;
    const { records } = read;
    let copies: RecordCopies | undefined;
    const held: Held[] = [];
    for (let row = 0; row < read.item.positions.length; row += 1) {
      if (records.kind === 'elements') {
        if (records.elements[row] !== undefined) held.push({ value: records.elements[row], row });
      } else if (records.kind === 'rows') {
        held.push({ value: rowOf(rows, records.rows[row] as number), row });
      } else {
        const length = records.lengths[row] as number;
        if (length < 0) continue;
        const chunk = records.chunks[records.chunkOf[row] as number] as Uint8Array;
        const start = records.starts[row] as number;
        if (rows.kind !== 'decoder') {
          copies ??= new RecordCopies(records.lengths, allocate);
          held.push({ value: copies.copy(chunk, start, length), row });
          continue;
        }
        let element: unknown;
        try {
          element = rows.decoder.element(chunk, start, length);
        } catch (error) {
          throw inFile(error, originAt(read.origins, row));
        }
        if (isPromise(element)) element = waiting(element, originAt(read.origins, row));
        held.push({ value: rows.isSingle ? (element as { value: unknown }).value : element, row });
      }
    }
    if (!held.some(({ value }) => isPromise(value))) return held;
    const values = (yield Promise.all(held.map(({ value }) => value))) as unknown[];
    return held.map(({ row }, place) => ({ value: values[place], row }));
  }

  *#apply(
    stage: FunctionNode,
    fn: ElementFunction,
    number: number,
    held: readonly Held[],
    { epoch, positions, origins }: Place,
  ): Steps<Held[]> {
    const { seed } = this.#options;
    const args = (isReference(stage.fn) ? stage.fn.args : null) as never;
    const results: Held[] = [];
    for (const { value, row } of held) {
      const position = positions[row] as number;
      let random: (() => number) | undefined;
      const context = {
        random: () => {
          random ??= randomFractions(keyOf(seed, epoch, position, number));
          return random();
        },
        epoch,
        position,
        args,
      };
      let result: unknown;
      try {
        result = fn(value, context);
        if (isPromise(result)) result = yield result;
      } catch (cause) {
        if (HorovodError.is(cause) && cause.code === 'ERR_HVD_WOULD_BLOCK') throw cause;
        throw functionError(stage, cause, { epoch, position, origin: originAt(origins, row) });
      }
      if (stage.node === 'map') results.push({ value: result, row });
      else if (stage.node === 'filter') {
        if (result) results.push({ value, row });
      } else {
        if (!isIterable(result)) {
          const wrong = new TypeError('flatMap() takes a function that returns a list');
          throw functionError(stage, wrong, { epoch, position, origin: originAt(origins, row) });
        }
        for (const each of result) results.push({ value: each, row });
      }
    }
    return results;
  }
}

/** 'map(augment)', 'batch' */
export function nameOfStage(stage: StageNode): string {
  if (!('fn' in stage)) return stage.node;
  return stage.fn.name === '' ? stage.node : `${stage.node}(${stage.fn.name})`;
}

/** Records written straight into the columns of a batch; undefined if these records cannot be. */
function* fillBatch(
  { item, records, origins }: ReadItem,
  rows: Rows,
  allocate: Allocate,
): Steps<{ value: Record<string, Tensor> | undefined; damaged: number } | undefined> {
  if (records.kind === 'rows' && rows.kind === 'arrays') {
    const count = item.positions.length;
    const batch: Record<string, Tensor> = {};
    for (const { name, dtype, shape, data: source } of rows.columns) {
      const elements = elementsIn(shape);
      const data = arrayFor(dtype, count * elements, allocate);
      for (let row = 0; row < count; row += 1) {
        const from = (records.rows[row] as number) * elements;
        data.set((source as Uint8Array).subarray(from, from + elements) as never, row * elements);
      }
      batch[name] = { data, shape: [count, ...shape], dtype };
    }
    return { value: batch, damaged: 0 };
  }
  if (records.kind !== 'bytes' || rows.kind !== 'decoder' || rows.isSingle) return undefined;
  const { decoder } = rows;
  const { columns } = decoder;
  if (columns === null) return undefined;
  const { chunks, chunkOf, starts, lengths } = records;
  const count = lengths.reduce((sum, length) => sum + (length < 0 ? 0 : 1), 0);
  if (count === 0) return { value: undefined, damaged: lengths.length };
  const target: TypedArray[] = columns.map(({ dtype, elements }) =>
    arrayFor(dtype, count * elements, allocate),
  );
  let [row, place] = [0, 0];
  const awaited: Promise<unknown>[] = [];
  try {
    for (; place < lengths.length; place += 1) {
      const length = lengths[place] as number;
      if (length < 0) continue;
      const chunk = chunks[chunkOf[place] as number] as Uint8Array;
      const filling = decoder.fill(chunk, starts[place] as number, length, row, target);
      if (filling !== undefined) awaited.push(waiting(filling, originAt(origins, place)));
      row += 1;
    }
  } catch (error) {
    throw inFile(error, originAt(origins, place));
  }
  if (awaited.length > 0) yield Promise.all(awaited);
  const batch = columns.map(({ name, dtype, shape }, place) => [
    name,
    { data: target[place] as TypedArray, shape: [count, ...shape], dtype },
  ]);
  return { value: Object.fromEntries(batch) as Record<string, Tensor>, damaged: lengths.length - count };
}

function rowOf(rows: Rows, row: number): unknown {
  if (rows.kind === 'range') return rows.start + row;
  if (rows.kind !== 'arrays') throw new Error(`no rows of ${rows.kind}`);
  const element: Record<string, Tensor> = {};
  for (const { name, dtype, shape, data } of rows.columns) {
    const elements = elementsIn(shape);
    element[name] = {
      data: (data as Uint8Array).slice(row * elements, (row + 1) * elements),
      shape,
      dtype,
    };
  }
  return element;
}

/** What a decoder says of a record, with the file and the record. */
function inFile(error: unknown, origin: SampleOrigin | undefined): unknown {
  if (origin === undefined || !HorovodError.is(error) || error.code !== 'ERR_HVD_DATA_FILE') return error;
  const { url, record } = origin;
  const file = shownLocation(url);
  const where = record === null ? file : `${file}, record ${record}`;
  return new HorovodError(error.code, `${where}: ${error.detail}`, { cause: error.cause });
}

function waiting(promise: Promise<unknown>, origin: SampleOrigin | undefined): Promise<unknown> {
  return promise.catch((error: unknown) => {
    throw inFile(error, origin);
  });
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.iterator in value;
}

function functionError(
  { node, fn }: FunctionNode,
  cause: unknown,
  { epoch, position, origin }: { epoch: number; position: number; origin: SampleOrigin | undefined },
): HorovodError {
  const name = isReference(fn) ? describeReference(fn) : fn.name || 'a function';
  const record = origin?.record == null ? '' : `record ${origin.record} of `;
  const where = origin === undefined || origin.url === '' ? '' : `${record}${shownLocation(origin.url)}, `;
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new HorovodError(
    'ERR_HVD_DATA_FUNCTION',
    `${node}(${name}) failed at ${where}position ${position} of epoch ${epoch}: ${reason}`,
    { cause },
  );
}
