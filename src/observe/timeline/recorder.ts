// Records the events of a rank while its timeline is on: collects records in a buffer and writes them to its ring every few
// milliseconds. Nothing here waits or grows: if the ring has no room, the buffer is dropped and its records are counted.

import { nowUs } from '../../engine/clock.ts';
import type { ObservedOperation } from '../../engine/observer.ts';
import { type Hello, headOf, operationWords, recordType, type Track, tracks } from './records.ts';
import type { RingWriter } from './ring.ts';

const bufferWords = 4096;
/** After this many texts all are forgotten, so that names that differ in every call do not fill the memory. */
const maxTexts = 4096;
/** Longer texts are truncated. */
const maxTextBytes = 512;
const flushMs = 50;
/** Further shapes of a group are only counted. */
const maxShapes = 4;

export interface RecorderOptions {
  readonly markCycles: boolean;
  /** Operations; Infinity: all. */
  readonly maxPerSecond?: number;
}

export const defaultOperationsPerSecond = 1000;

export class TimelineRecorder {
  readonly marksCycles: boolean;
  readonly #maxPerSecond: number;
  readonly #ring: RingWriter;
  readonly #hello: string;
  readonly #buffer = new Float64Array(bufferWords);
  readonly #bytes = new Uint8Array(this.#buffer.buffer);
  readonly #texts = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  #length = 0;
  #records = 0;
  #nextText = 1;
  #readers = 0;
  #secondEndsUs = 0;
  #shown = 0;
  #skipped = 0;
  #flushedAtUs = 0;
  #isOver = false;
  /** Of the last quick operation. The next one is usually the same. */
  #last: Partial<ObservedOperation> = {};
  #lastArguments = '';

  constructor(ring: RingWriter, hello: Hello, options: RecorderOptions) {
    this.#ring = ring;
    this.marksCycles = options.markCycles;
    this.#maxPerSecond = options.maxPerSecond ?? defaultOperationsPerSecond;
    this.#hello = JSON.stringify(hello);
    this.#text(0, this.#hello);
    this.flush();
    this.#timer = setInterval(() => this.flush(), flushMs);
    this.#timer.unref();
  }

  slice(track: Track, name: string, fromUs: number, toUs: number, args = ''): void {
    const nameId = this.textId(name);
    const argsId = args === '' ? 0 : this.textId(args);
    const at = this.#reserve(recordType.slice, 6);
    const buffer = this.#buffer;
    buffer[at + 1] = tracks[track];
    buffer[at + 2] = nameId;
    buffer[at + 3] = fromUs;
    buffer[at + 4] = toUs;
    buffer[at + 5] = argsId;
  }

  instant(track: Track, name: string, args = ''): void {
    const nameId = this.textId(name);
    const argsId = args === '' ? 0 : this.textId(args);
    const at = this.#reserve(recordType.instant, 5);
    const buffer = this.#buffer;
    buffer[at + 1] = tracks[track];
    buffer[at + 2] = nameId;
    buffer[at + 3] = nowUs();
    buffer[at + 4] = argsId;
  }

  /** An operation has ended. */
  operation(operation: ObservedOperation): void {
    const { submittedAtMs, leftAtMs, finishedAtMs } = operation;
    const argsOf = () => argumentsOf(operation);
    this.#operation(operation, argsOf, submittedAtMs * 1e3, leftAtMs * 1e3, finishedAtMs * 1e3);
  }

  /** A quick operation has ended. Its times come from its marks; without a trace it is only counted. */
  quickOperation(operation: ObservedOperation): void {
    const { marks, isTraced } = operation;
    if (!isTraced) this.#skipped++;
    if (!isTraced || marks.length < 4) return;
    const fromUs = marks[1] as number;
    const overUs = marks[marks.length - 1] as number;
    this.#operation(operation, () => this.#quickArgumentsOf(operation), fromUs, fromUs, overUs);
  }

  /** Whether to show an operation that begins about now. Others cost almost nothing. */
  shows(nowMs: number): boolean {
    return this.#shown < this.#maxPerSecond || nowMs * 1e3 >= this.#secondEndsUs;
  }

  /** The number of a text, which is written first if it is new. Call it directly before writing the record that uses it. */
  textId(text: string): number {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    // Includes room for the next record, because a flush in between may drop the text with its buffer.
    const words = 3 + Math.ceil(Math.min(Buffer.byteLength(text), maxTextBytes) / 8);
    if (this.#length + words + 256 > bufferWords) this.flush();
    if (this.#texts.size >= maxTexts) {
      this.#forget();
    }
    const id = this.#nextText++;
    this.#texts.set(text, id);
    this.#text(id, text);
    return id;
  }

  /** Writes the collected records to the ring. */
  flush(): void {
    this.#flushedAtUs = nowUs();
    if (this.#length === 0) return;
    if (!this.#isOver) this.#greetReader();
    const bytes = this.#bytes.subarray(0, this.#length * 8);
    const isWritten = this.#isOver || this.#ring.write(bytes, this.#records);
    this.#length = 0;
    this.#records = 0;
    if (isWritten) return;
    // Texts may have been dropped, too.
    this.#forget();
    this.#text(0, this.#hello);
  }

  /** Later records of operations in flight are discarded, because the ring may be closed at any time. */
  end(): void {
    clearInterval(this.#timer);
    if (this.#skipped > 0) this.instant('cycles', 'EVENTS_DROPPED', `"events":${this.#skipped}`);
    this.flush();
    this.#isOver = true;
    this.#ring.end();
  }

  /**
   * Only the first operations of each second are shown; the others are counted. Thousands per second would soon fill gigabytes,
   * and writing them would slow down the operations. Seconds of the host's clock, so that its ranks show the same operations.
   */
  #isWithinRate(nowUs: number): boolean {
    if (nowUs >= this.#secondEndsUs) {
      this.#secondEndsUs = (Math.floor(nowUs / 1e6) + 1) * 1e6;
      this.#shown = 0;
      if (this.#skipped > 0) {
        this.instant('cycles', 'EVENTS_DROPPED', `"events":${this.#skipped}`);
        this.#skipped = 0;
      }
    }
    if (this.#shown < this.#maxPerSecond) {
      this.#shown++;
      return true;
    }
    this.#skipped++;
    return false;
  }

  #operation(
    operation: ObservedOperation,
    argumentsText: () => string,
    submittedUs: number,
    leftUs: number,
    overUs: number,
  ): void {
    if (!this.#isWithinRate(overUs)) return;
    const { key, unnamed, error, exchanges, lastMarks: marks } = operation;
    const { length } = marks;
    const nameId = unnamed > 0 ? 0 : this.textId(key);
    const argsId = this.textId(argumentsText());
    const errorId = error === undefined ? 0 : this.textId(error);
    const at = this.#reserve(recordType.operation, operationWords + length);
    const buffer = this.#buffer;
    buffer[at + 1] = nameId;
    buffer[at + 2] = argsId;
    buffer[at + 3] = unnamed;
    buffer[at + 4] = submittedUs;
    buffer[at + 5] = leftUs;
    buffer[at + 6] = overUs;
    buffer[at + 7] = errorId;
    buffer[at + 8] = exchanges;
    for (let i = 0; i < length; i++) buffer[at + operationWords + i] = marks[i] as number;
    if (overUs - this.#flushedAtUs > flushMs * 1e3) this.flush();
  }

  #quickArgumentsOf(operation: ObservedOperation): string {
    const { dtype, op, kind, root, processSet, bytes, shape, shapes } = operation;
    if (shapes !== undefined) return argumentsOf(operation);
    const isSame =
      bytes === this.#last.bytes &&
      shape === this.#last.shape &&
      dtype === this.#last.dtype &&
      op === this.#last.op &&
      kind === this.#last.kind &&
      root === this.#last.root &&
      processSet === this.#last.processSet;
    if (isSame) return this.#lastArguments;
    const text = argumentsOf(operation);
    this.#last = { bytes, shape, dtype, op, kind, root, processSet };
    this.#lastArguments = text;
    return text;
  }

  /** A new collector reads from here on. It needs the description of this rank and all texts. */
  #greetReader(): void {
    const { readers } = this.#ring;
    if (readers === this.#readers) return;
    this.#readers = readers;
    const records = [textRecord(0, this.#hello)];
    for (const [text, id] of this.#texts) records.push(textRecord(id, text));
    this.#ring.write(Buffer.concat(records), 0);
  }

  /** Numbers are never reused, so that a number from a dropped buffer means nothing instead of something else. */
  #forget(): void {
    this.#texts.clear();
    this.#reserve(recordType.forget, 1);
    this.#records--;
  }

  #text(id: number, text: string): void {
    const record = textRecord(id, text);
    const at = this.#reserve(recordType.text, record.length / 8);
    this.#bytes.set(record, at * 8);
    this.#records--; // a text is no event
  }

  #reserve(type: number, words: number): number {
    if (this.#length + words > bufferWords) this.flush();
    const at = this.#length;
    this.#length += words;
    this.#records++;
    this.#buffer[at] = headOf(type, words);
    return at;
  }
}

function textRecord(id: number, text: string): Uint8Array {
  const bytes = Buffer.from(text);
  const length = id === 0 ? bytes.length : Math.min(bytes.length, maxTextBytes);
  const words = new Float64Array(3 + Math.ceil(length / 8));
  words[0] = headOf(recordType.text, words.length);
  words[1] = id;
  words[2] = length;
  const record = new Uint8Array(words.buffer);
  record.set(bytes.subarray(0, length), 24);
  return record;
}

/** Members of a JSON object. */
function argumentsOf(operation: ObservedOperation): string {
  const { kind, dtype, op, root, bytes, processSet, isGrouped } = operation;
  const shapes = operation.shapes ?? [operation.shape ?? [operation.elements]];
  const shown = shapes.slice(0, maxShapes).map((shape) => `[${shape.join(', ')}]`);
  if (shapes.length > maxShapes) shown.push(`and ${shapes.length - maxShapes} more`);
  return (
    `"kind":"${kind}"` +
    (dtype === undefined ? '' : `,"dtype":"${dtype}","shape":"${shown.join(', ')}","bytes":${bytes}`) +
    (isGrouped ? `,"tensors":${shapes.length}` : '') +
    (op === undefined ? '' : `,"op":${JSON.stringify(op)}`) +
    (root === undefined ? '' : `,"root":${root}`) +
    (processSet === 0 ? '' : `,"process_set":${processSet}`)
  );
}
