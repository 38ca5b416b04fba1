// The flight recorder: the last N collectives of this rank, for after a crash or a stall. A ring of records
// that are written over, so that recording allocates nothing. Quick blocking operations carry only the time at
// which they finished, to within some milliseconds (a clock read costs a fifth of such an operation), and their call
// site only where they had to wait long, or now and then (call-site.ts says what it costs).

import type { DType } from '../../tensor/dtype.ts';

/**
 * pending: asked for. running: all ranks were found to have asked for it; most operations learn that together with
 * their end, and go from pending to done.
 */
export type CollectiveState = 'pending' | 'running' | 'done' | 'failed';

export interface CollectiveRecord {
  /** Counts from 1, over all process sets. */
  readonly sequence: number;
  readonly kind: string;
  readonly name: string;
  readonly processSet: number;
  /** Of one with a name: how many of that name this rank has asked for in its process set, this one included; else 0. */
  readonly occurrence: number;
  readonly dtype: DType | undefined;
  /** Of each tensor. */
  readonly shapes: readonly (readonly number[])[];
  readonly bytes: number;
  readonly op: string | undefined;
  /** Of a broadcast. */
  readonly root: number | undefined;
  readonly state: CollectiveState;
  /** Milliseconds of the host's monotonic clock (process.hrtime); 0: not known. */
  readonly submittedAtMs: number;
  readonly finishedAtMs: number;
  /** Code of the error it ended with. */
  readonly error: string | undefined;
  /** file:line of the call outside of this package, or of the last call of that name; undefined: not taken. */
  readonly callSite: string | undefined;
}

export type MutableRecord = {
  -readonly [K in keyof Omit<CollectiveRecord, 'shapes'>]: CollectiveRecord[K];
} & {
  /** Undefined: one tensor, of `shape`, or of `[elements]` where that is undefined too. */
  shapes: readonly (readonly number[])[] | undefined;
  shape: readonly number[] | undefined;
  elements: number;
  /** Counter of an unnamed operation: the text of its name is made only when somebody asks. */
  unnamed: number;
};

export interface NameCounter {
  count: number;
}

/** Names that are made up for every call must not be kept for ever. */
const namesLimit = 10_000;

export class FlightRecorder {
  readonly #ring: MutableRecord[];
  #count = 0;
  #last: MutableRecord = emptyRecord();
  #bytesBeforeLast = 0;
  readonly #names = new Map<number, Map<string, NameCounter>>();

  constructor(capacity: number) {
    this.#ring = Array.from({ length: Math.max(capacity, 0) }, emptyRecord);
  }

  get capacity(): number {
    return this.#ring.length;
  }

  /** Collectives so far. */
  get count(): number {
    return this.#count;
  }

  /** Bytes given to them so far. */
  get bytes(): number {
    return this.#bytesBeforeLast + this.#last.bytes;
  }

  /** The newest; undefined before the first. */
  get last(): CollectiveRecord | undefined {
    return this.#count === 0 ? undefined : toRecord(this.#last);
  }

  /** The record to fill; valid until `capacity` more have begun. */
  begin(): MutableRecord {
    const sequence = ++this.#count;
    const record = this.#ring[(sequence - 1) % this.#ring.length] ?? emptyRecord();
    this.#bytesBeforeLast += this.#last.bytes;
    this.#last = record;
    record.sequence = sequence;
    record.occurrence = 0;
    record.root = undefined;
    record.bytes = 0;
    record.state = 'pending';
    record.error = undefined;
    record.callSite = undefined;
    return record;
  }

  /**
   * Counts what has this name, so that records of several ranks can be put side by side long after their first ones are
   * gone. Undefined: there are too many names already.
   */
  counterOf(processSet: number, name: string): NameCounter | undefined {
    let names = this.#names.get(processSet);
    if (names === undefined) {
      names = new Map();
      this.#names.set(processSet, names);
    }
    let counter = names.get(name);
    if (counter === undefined && names.size < namesLimit) {
      counter = { count: 0 };
      names.set(name, counter);
    }
    return counter;
  }

  /** A new process set has this number: its members begin to count together. */
  forgetNames(processSet: number): void {
    this.#names.delete(processSet);
  }

  /** Oldest first. */
  read(): CollectiveRecord[] {
    const held = Math.min(this.#count, this.#ring.length);
    return Array.from({ length: held }, (_, i) =>
      toRecord(this.#ring[(this.#count - held + i) % this.#ring.length] as MutableRecord),
    );
  }
}

function toRecord({ unnamed, shapes, shape, elements, ...record }: MutableRecord): CollectiveRecord {
  const name = unnamed > 0 ? `${record.kind}.noname.${unnamed}` : record.name;
  // Those of a quick call are the caller's own array, which may change.
  return { ...record, name, shapes: shapes ?? [[...(shape ?? [elements])]] };
}

function emptyRecord(): MutableRecord {
  return {
    sequence: 0,
    kind: '',
    name: '',
    unnamed: 0,
    processSet: 0,
    occurrence: 0,
    dtype: undefined,
    shapes: undefined,
    shape: undefined,
    elements: 0,
    bytes: 0,
    op: undefined,
    root: undefined,
    state: 'pending',
    submittedAtMs: 0,
    finishedAtMs: 0,
    error: undefined,
    callSite: undefined,
  };
}
