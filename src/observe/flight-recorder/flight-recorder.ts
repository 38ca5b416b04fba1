// The flight recorder: the last N collectives of this rank, for after a crash or a stall. A ring of slots that are
// written over, so that recording allocates nothing. Quick operations have only the time at which they finished, to within
// some milliseconds (a clock read costs a fifth of such an operation). Their call site is that of the first quick call of their
// name; those without a name have one only where they had to wait (call-site.ts says what it costs).

import { nowMs } from '../../engine/clock.ts';
import { isInternal, type RequestKind } from '../../engine/description.ts';
import type { ObservedOperation, OperationObserver, OperationStage } from '../../engine/observer.ts';
import type { DType } from '../../tensor/dtype.ts';
import { CallSites, writtenLine } from './call-site.ts';

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
  /** file:line of the call outside of this package as it was written, or of the last call of that name; undefined: not taken. */
  readonly callSite: string | undefined;
}

/** A place in the ring. */
type Slot = { -readonly [K in keyof Omit<CollectiveRecord, 'shapes'>]: CollectiveRecord[K] } & Pick<
  ObservedOperation,
  'unnamed' | 'shapes' | 'shape' | 'elements'
>;

interface NameCounter {
  readonly processSet: number;
  readonly key: string;
  count: number;
  /** Of the first quick call of that name; undefined: there was none. */
  site: { readonly text: string | undefined } | undefined;
}

/** Names that are made up for every call must not be kept for ever. */
const maxNames = 10_000;

export class FlightRecorder implements OperationObserver {
  readonly name = 'the flight recorder';
  readonly #ring: Slot[];
  readonly #sites: CallSites;
  #last: Slot = emptySlot();
  #count = 0;
  #bytes = 0;
  /** How often each name was asked for, by process set. */
  readonly #names = new Map<number, Map<string, NameCounter>>();
  /** The one used last: prepared collectives ask for the same again and again, and a look into the maps costs them much. */
  #lastName: NameCounter | undefined;

  constructor(capacity: number, sites: CallSites = new CallSites()) {
    this.#ring = Array.from({ length: Math.max(capacity, 0) }, emptySlot);
    this.#sites = sites;
  }

  /** Collectives so far. */
  get count(): number {
    return this.#count;
  }

  /** Bytes given to them so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The newest that the user has called; undefined before the first. Its call site is not that of the source. */
  get last(): CollectiveRecord | undefined {
    // The ring may have gone round and given the slot to another one.
    const isUsers = this.#last.sequence > 0 && !isInternal({ kind: this.#last.kind as RequestKind });
    return isUsers ? toRecord(this.#last) : undefined;
  }

  compiled({ key }: ObservedOperation): void {
    if (key !== '') this.#sites.of(key, nowMs());
  }

  afterQuick(operation: ObservedOperation): void {
    const slot = this.#fill(operation);
    this.#last = slot;
    slot.state = 'done';
    slot.finishedAtMs = operation.finishedAtMs;
    slot.callSite = operation.unnamed > 0 ? undefined : this.#siteOfName(operation);
  }

  submitted(operation: ObservedOperation): void {
    const slot = this.#fill(operation);
    if (!isInternal(operation)) this.#last = slot;
    slot.state = 'pending';
    slot.finishedAtMs = 0;
    slot.callSite = this.#sites.of(
      operation.unnamed > 0 ? undefined : operation.key,
      operation.submittedAtMs,
    );
  }

  agreed(operation: ObservedOperation): void {
    const slot = this.#slotOf(operation);
    if (slot !== undefined) slot.state = 'running';
  }

  stage(operation: ObservedOperation, stage: OperationStage): void {
    if (stage === 'slow') this.submitted(operation);
    else if (stage === 'zeros') {
      if (operation.unnamed === 0) this.#addToName(operation, 1);
    } else {
      // What is there may be of another call of that name.
      const slot = this.#slotOf(operation);
      if (slot !== undefined) slot.callSite = this.#sites.look() ?? slot.callSite;
    }
  }

  settled(operation: ObservedOperation): void {
    if (operation.isRejected && operation.unnamed === 0) this.#addToName(operation, -1);
    const slot = this.#slotOf(operation);
    if (slot === undefined) return;
    slot.state = operation.error === undefined ? 'done' : 'failed';
    slot.finishedAtMs = operation.finishedAtMs;
    slot.error = operation.error;
  }

  /** Its members begin to count together. */
  processSetAdded(processSet: number): void {
    this.#names.delete(processSet);
    this.#lastName = undefined;
  }

  /** Oldest first. */
  read(): CollectiveRecord[] {
    const held = Math.min(this.#count, this.#ring.length);
    const written = new Map<string, string>();
    const lineOf = (site: string) => {
      const known = written.get(site) ?? writtenLine(site);
      written.set(site, known);
      return known;
    };
    return Array.from({ length: held }, (_, i) => {
      const record = toRecord(this.#ring[(this.#count - held + i) % this.#ring.length] as Slot);
      return { ...record, callSite: record.callSite && lineOf(record.callSite) };
    });
  }

  /** Of the name that was counted just now. A look at the stack costs more than many quick calls: each name is looked up once. */
  #siteOfName({ key, finishedAtMs }: ObservedOperation): string | undefined {
    const counter = this.#lastName;
    if (counter === undefined) return undefined;
    counter.site ??= { text: this.#sites.of(key, finishedAtMs) };
    return counter.site.text;
  }

  /** Undefined: the ring has gone round. */
  #slotOf({ sequence }: ObservedOperation): Slot | undefined {
    const slot = this.#ring[(sequence - 1) % this.#ring.length] ?? this.#last;
    return slot.sequence === sequence ? slot : undefined;
  }

  #fill(operation: ObservedOperation): Slot {
    const { sequence, bytes, unnamed } = operation;
    const slot = this.#ring[(sequence - 1) % this.#ring.length] ?? emptySlot();
    this.#count = sequence;
    this.#bytes += bytes;
    slot.sequence = sequence;
    slot.kind = operation.kind;
    slot.name = operation.name;
    slot.unnamed = unnamed;
    slot.processSet = operation.processSet;
    slot.occurrence = unnamed > 0 ? 0 : this.#addToName(operation, 1);
    slot.dtype = operation.dtype;
    slot.shapes = operation.shapes;
    slot.shape = operation.shape;
    slot.elements = operation.elements;
    slot.bytes = bytes;
    slot.op = operation.op;
    slot.root = operation.root;
    slot.submittedAtMs = operation.submittedAtMs;
    slot.error = undefined;
    return slot;
  }

  /**
   * Counts what has this name, so that records of several ranks can be put side by side long after their first ones are
   * gone. 0: there are too many names already.
   */
  #addToName({ processSet, key }: ObservedOperation, change: number): number {
    let counter = this.#lastName;
    if (counter?.key !== key || counter.processSet !== processSet) {
      counter = this.#counterOf(processSet, key);
      this.#lastName = counter;
    }
    if (counter === undefined) return 0;
    counter.count += change;
    return counter.count;
  }

  #counterOf(processSet: number, key: string): NameCounter | undefined {
    let names = this.#names.get(processSet);
    if (names === undefined) {
      names = new Map();
      this.#names.set(processSet, names);
    }
    let counter = names.get(key);
    if (counter === undefined && names.size < maxNames) {
      counter = { processSet, key, count: 0, site: undefined };
      names.set(key, counter);
    }
    return counter;
  }
}

function toRecord({ unnamed, shapes, shape, elements, ...slot }: Slot): CollectiveRecord {
  const name = unnamed > 0 ? `${slot.kind}.noname.${unnamed}` : slot.name;
  // The shape of a quick call is the caller's array, which may change.
  return { ...slot, name, shapes: shapes ?? [[...(shape ?? [elements])]] };
}

function emptySlot(): Slot {
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
