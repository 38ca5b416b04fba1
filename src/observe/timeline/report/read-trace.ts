// Reads the events of a trace one by one, so that a file of gigabytes needs no more memory than a small one. If the end of a file is
// missing, because a machine crashed, all its events are still read.

import { type FileHandle, open } from 'node:fs/promises';

export interface TraceEvent {
  readonly name: string;
  readonly ph: string;
  readonly ts: number;
  readonly dur: number;
  readonly pid: number;
  readonly tid: number;
  readonly cat: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** Describes what is wrong with a file. The message completes the line `cannot read FILE: …`. */
export class TraceFileError extends Error {}

export interface TraceEnd {
  /** Whether the file had a closing bracket. */
  readonly isWhole: boolean;
  readonly events: number;
  readonly bytes: number;
}

const pieceBytes = 1 << 20;
/** Longer than any event of a trace. */
const mostEventBytes = 1 << 20;

/** Calls `visit` for every event. Throws TraceFileError if the file is not a trace. */
export async function readTrace(path: string, visit: (event: TraceEvent) => void): Promise<TraceEnd> {
  let file: FileHandle;
  try {
    file = await open(path, 'r');
  } catch (error) {
    throw new TraceFileError(describeSystem(error as NodeJS.ErrnoException));
  }
  const splitter = new EventSplitter(visit);
  let bytes = 0;
  try {
    const piece = Buffer.alloc(pieceBytes);
    for (;;) {
      const { bytesRead } = await file.read(piece, 0, pieceBytes, null);
      if (bytesRead === 0) break;
      bytes += bytesRead;
      splitter.push(piece.subarray(0, bytesRead));
    }
  } catch (error) {
    if (error instanceof TraceFileError) throw error;
    throw new TraceFileError(describeSystem(error as NodeJS.ErrnoException));
  } finally {
    await file.close();
  }
  if (bytes === 0) throw new TraceFileError('it is empty.');
  return { ...splitter.end(), bytes };
}

const code = { quote: 34, backslash: 92, open: 123, close: 125, begin: 91, end: 93, comma: 44 } as const;

/** Splits the bytes of a JSON array into its objects. */
class EventSplitter {
  readonly #visit: (event: TraceEvent) => void;
  #state: 'before' | 'between' | 'event' | 'after' = 'before';
  #depth = 0;
  #isInText = false;
  #isEscaped = false;
  #pieces: Buffer[] = [];
  #length = 0;
  #events = 0;

  constructor(visit: (event: TraceEvent) => void) {
    this.#visit = visit;
  }

  push(bytes: Buffer): void {
    let start = this.#state === 'event' ? 0 : -1;
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i] as number;
      if (this.#state === 'event') {
        if (this.#isInText) {
          if (this.#isEscaped) this.#isEscaped = false;
          else if (byte === code.backslash) this.#isEscaped = true;
          else if (byte === code.quote) this.#isInText = false;
        } else if (byte === code.quote) this.#isInText = true;
        else if (byte === code.open) this.#depth++;
        else if (byte === code.close && --this.#depth === 0) {
          this.#take(bytes.subarray(start, i + 1));
          this.#state = 'between';
          start = -1;
        }
      } else if (!this.#isBetween(byte)) {
        start = i;
        this.#state = 'event';
        this.#depth = 1;
      }
    }
    if (start < 0) return;
    this.#length += bytes.length - start;
    if (this.#length > mostEventBytes) throw new TraceFileError('it has an event larger than 1 MiB.');
    this.#pieces.push(Buffer.from(bytes.subarray(start)));
  }

  end(): { isWhole: boolean; events: number } {
    if (this.#state === 'before') throw new TraceFileError('it contains only white space.');
    return { isWhole: this.#state === 'after', events: this.#events };
  }

  /** False: an event begins here. */
  #isBetween(byte: number): boolean {
    if (byte === 32 || byte === 10 || byte === 13 || byte === 9) return true;
    if (this.#state === 'before' && byte === code.begin) {
      this.#state = 'between';
      return true;
    }
    if (this.#state === 'between' && byte === code.open) return false;
    if (this.#state === 'between' && byte === code.comma) return true;
    if (this.#state === 'between' && byte === code.end) {
      this.#state = 'after';
      return true;
    }
    // The file was overwritten by a shorter one, or Horovod did not write it.
    throw new TraceFileError(
      this.#state === 'before'
        ? 'it is not a timeline: it does not start with "[".'
        : `it is damaged after event ${this.#events}.`,
    );
  }

  #take(last: Buffer): void {
    const bytes = this.#pieces.length === 0 ? last : Buffer.concat([...this.#pieces, last]);
    this.#pieces = [];
    this.#length = 0;
    this.#events++;
    let value: Partial<TraceEvent>;
    try {
      value = JSON.parse(bytes.toString('utf8')) as Partial<TraceEvent>;
    } catch {
      throw new TraceFileError(`event ${this.#events} is not JSON.`);
    }
    const { name, ph, ts = 0, dur = 0, pid = 0, tid = 0, cat = '', args } = value;
    if (typeof ph !== 'string') throw new TraceFileError(`event ${this.#events} is invalid: it has no "ph".`);
    this.#visit({
      name: String(name ?? ''),
      ph,
      ts: Number(ts),
      dur: Number(dur),
      pid: Number(pid),
      tid: Number(tid),
      cat: String(cat),
      args: typeof args === 'object' && args !== null ? args : {},
    });
  }
}

function describeSystem({ code: name, message }: NodeJS.ErrnoException): string {
  const known: Readonly<Record<string, string>> = {
    ENOENT: 'there is no such file.',
    EACCES: 'you do not have permission to read it.',
    EISDIR: 'it is a directory.',
  };
  return known[name ?? ''] ?? message;
}
