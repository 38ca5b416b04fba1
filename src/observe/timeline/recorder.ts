// What a rank notes down while its timeline is on: gathers records in a buffer of its own and hands them to its ring
// every few milliseconds. Nothing here waits, and nothing grows: a ring without room drops a buffer and counts it.

import { type Hello, headOf, operationWords, recordType, type Track, tracks } from './records.ts';
import type { RingWriter } from './ring.ts';

const bufferWords = 4096;
/** Texts remembered before all are forgotten: names that are made up for every call must not grow for ever. */
const mostTexts = 4096;
/** Longer ones are cut. */
const mostTextBytes = 512;
const flushMs = 50;

export interface RecorderOptions {
  readonly markCycles: boolean;
  /** Operations; Infinity: all. */
  readonly mostPerSecond?: number;
}

export const defaultOperationsPerSecond = 1000;

/** What it needs of a transport's quick way. */
export interface QuickTrace {
  readonly isTraced: boolean;
  readonly lastMarks: Float64Array;
}

/** Fields of a flight record that stay as they are during the call. */
export interface QuickOperation {
  readonly kind: string;
  readonly name: string | undefined;
  /** Its number among unnamed ones; 0: it has a name. */
  readonly unnamed: number;
  readonly dtype: string | undefined;
  readonly op: string | undefined;
  readonly bytes: number;
  /** Undefined: [elements], or several. */
  readonly shape?: readonly number[] | undefined;
  readonly shapes?: readonly (readonly number[])[] | undefined;
  readonly elements?: number;
  readonly processSet: number;
}

export class TimelineRecorder {
  readonly marksCycles: boolean;
  readonly #mostPerSecond: number;
  readonly #ring: RingWriter;
  readonly #hello: string;
  readonly #buffer = new Float64Array(bufferWords);
  readonly #bytes = new Uint8Array(this.#buffer.buffer);
  readonly #texts = new Map<string, number>();
  readonly #originUs: number;
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
  #quickArguments = '';
  #quickBytes = -1;
  #quickShape: readonly number[] | undefined;
  #quickDtype: string | undefined;
  #quickOp: string | undefined;

  constructor(ring: RingWriter, hello: Hello, options: RecorderOptions) {
    this.#ring = ring;
    this.marksCycles = options.markCycles;
    this.#mostPerSecond = options.mostPerSecond ?? defaultOperationsPerSecond;
    // hrtime is the clock that all processes of a host share; performance.now() is the same one from another origin,
    // and cheaper to ask.
    this.#originUs = Number(process.hrtime.bigint()) / 1e3 - performance.now() * 1e3;
    this.#hello = JSON.stringify(hello);
    this.#text(0, this.#hello);
    this.flush();
    this.#timer = setInterval(() => this.flush(), flushMs);
    this.#timer.unref();
  }

  /** Microseconds of the host's monotonic clock. */
  nowUs(): number {
    return this.#originUs + performance.now() * 1e3;
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
    buffer[at + 3] = this.nowUs();
    buffer[at + 4] = argsId;
  }

  /** `name`, `args`, `error` are numbers of texts; `marks` pairs of stage and time. */
  operation(
    name: number,
    args: number,
    unnamed: number,
    submittedUs: number,
    leftUs: number,
    overUs: number,
    error: number,
    exchanges: number,
    marks: ArrayLike<number>,
    markWords: number,
  ): void {
    if (!this.#isWithinRate(overUs)) return;
    const at = this.#reserve(recordType.operation, operationWords + markWords);
    const buffer = this.#buffer;
    buffer[at + 1] = name;
    buffer[at + 2] = args;
    buffer[at + 3] = unnamed;
    buffer[at + 4] = submittedUs;
    buffer[at + 5] = leftUs;
    buffer[at + 6] = overUs;
    buffer[at + 7] = error;
    buffer[at + 8] = exchanges;
    for (let i = 0; i < markWords; i++) buffer[at + operationWords + i] = marks[i] as number;
    if (overUs - this.#flushedAtUs > flushMs * 1e3) this.flush();
  }

  /** Whether an operation that begins about now is to be shown: what is not costs next to nothing. */
  shows(nowMs: number): boolean {
    return this.#shown < this.#mostPerSecond || nowMs * 1e3 >= this.#secondEndsUs;
  }

  /** A quick operation is over; its times are those of its marks. Without a trace it is only counted. */
  quickOperation(operation: QuickOperation, quick: QuickTrace): void {
    if (!quick.isTraced) {
      this.#skipped++;
      return;
    }
    const marks = quick.lastMarks;
    const { length } = marks;
    if (length < 4) return;
    const { kind, name, unnamed, dtype, op, bytes, shape, processSet } = operation;
    // Mostly the same again and again: the last arguments are kept.
    let args = this.#quickArguments;
    if (
      bytes !== this.#quickBytes ||
      shape !== this.#quickShape ||
      dtype !== this.#quickDtype ||
      op !== this.#quickOp
    ) {
      args = quickArguments(operation);
      this.#quickArguments = args;
      this.#quickBytes = bytes;
      this.#quickShape = shape;
      this.#quickDtype = dtype;
      this.#quickOp = op;
    }
    if (processSet !== 0) args += `,"process_set":${processSet}`;
    const nameId = unnamed > 0 ? 0 : this.textId(name ?? kind);
    const argsId = this.textId(args);
    const fromUs = marks[1] as number;
    this.operation(nameId, argsId, unnamed, fromUs, fromUs, marks[length - 1] as number, 0, 0, marks, length);
  }

  /** The number of a text; it is sent along if it is new. To be asked right before the record that uses it. */
  textId(text: string): number {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    // Room for the record that follows too: a flush between the two may drop the text with its buffer.
    const words = 3 + Math.ceil(Math.min(Buffer.byteLength(text), mostTextBytes) / 8);
    if (this.#length + words + 256 > bufferWords) this.flush();
    if (this.#texts.size >= mostTexts) {
      this.#forget();
    }
    const id = this.#nextText++;
    this.#texts.set(text, id);
    this.#text(id, text);
    return id;
  }

  /** Hands over what has been gathered. */
  flush(): void {
    this.#flushedAtUs = this.nowUs();
    if (this.#length === 0) return;
    if (!this.#isOver) this.#greetReader();
    const bytes = this.#bytes.subarray(0, this.#length * 8);
    const isWritten = this.#isOver || this.#ring.write(bytes, this.#records);
    this.#length = 0;
    this.#records = 0;
    if (isWritten) return;
    // Texts may have been among what was dropped.
    this.#forget();
    this.#text(0, this.#hello);
  }

  /** What operations note down afterwards that were in flight goes nowhere: the ring may be closed at any time. */
  end(): void {
    clearInterval(this.#timer);
    if (this.#skipped > 0) this.instant('cycles', 'EVENTS_DROPPED', `"events":${this.#skipped}`);
    this.flush();
    this.#isOver = true;
    this.#ring.end();
  }

  /**
   * The first operations of each second are shown, all of them, and the rest is counted: thousands a second would be gigabytes
   * soon, and their writing would slow down what they tell about. By the host's clock, so that its ranks show the same ones.
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
    if (this.#shown < this.#mostPerSecond) {
      this.#shown++;
      return true;
    }
    this.#skipped++;
    return false;
  }

  /** Another collector reads from here on: it has to know who we are, and all texts. */
  #greetReader(): void {
    const { readers } = this.#ring;
    if (readers === this.#readers) return;
    this.#readers = readers;
    const records = [textRecord(0, this.#hello)];
    for (const [text, id] of this.#texts) records.push(textRecord(id, text));
    this.#ring.write(Buffer.concat(records), 0);
  }

  /** Numbers are never given twice: one that a flush has made void means nothing, rather than something else. */
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
  const length = id === 0 ? bytes.length : Math.min(bytes.length, mostTextBytes);
  const words = new Float64Array(3 + Math.ceil(length / 8));
  words[0] = headOf(recordType.text, words.length);
  words[1] = id;
  words[2] = length;
  const record = new Uint8Array(words.buffer);
  record.set(bytes.subarray(0, length), 24);
  return record;
}

/** Members of a JSON object. */
function quickArguments({ kind, dtype, op, bytes, shape, shapes, elements }: QuickOperation): string {
  const shown = (shapes ?? [shape ?? [elements ?? 0]]).slice(0, 4).map((each) => `[${each.join(', ')}]`);
  if (shapes !== undefined && shapes.length > 4) shown.push(`and ${shapes.length - 4} more`);
  return `"kind":"${kind}","dtype":"${dtype}","shape":"${shown.join(', ')}","bytes":${bytes},"op":"${op}"`;
}
