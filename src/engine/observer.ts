// How the engine is watched. It knows this one interface and no implementation: flight recorder, timeline, status, stalls
// and stragglers lie in observe/ and are attached by the context. Events are for watching only: the engine does the same
// with nobody listening, and an observer that throws is removed, with a warning.
//
// A *quick* operation (operations/compiled) is over in half a microsecond. So nothing is allocated to tell of it:
// the same ObservedOperation is filled anew each time, and observers copy what they need. It has events of its own:
// beforeQuick() and afterQuick() instead of submitted() and settled().

import assert from 'node:assert';
import type { Log } from '../console/log.ts';
import type { HorovodError } from '../errors.ts';
import { type DType, dtypes } from '../tensor/dtype.ts';
import { type Description, isUnnamed, nameOf, type RequestKind } from './description.ts';
import type { StepMark } from './step-clock.ts';

/**
 * What happens to an operation before settled().
 *
 * - 'slow': a quick operation did not end at once and goes on as any other. It comes after beforeQuick(), in place of
 *   submitted(); from here on the operation is an object of its own.
 * - 'waiting': its blocking call has waited long. 'throwing': its blocking call is about to throw its error. In both cases
 *   the user's call is on the stack.
 * - 'zeros': this rank has joined and takes part with zeros. Such an operation is neither submitted nor settled.
 */
export type OperationStage = 'slow' | 'waiting' | 'throwing' | 'zeros';

export interface OperationObserver {
  /** For warnings. */
  readonly name: string;
  /** This rank asks for it. */
  submitted?(operation: ObservedOperation): void;
  /** The user's call is on the stack, for the first time with this name: later ones may run without it. */
  compiled?(operation: ObservedOperation): void;
  /** A quick operation is about to run. */
  beforeQuick?(operation: ObservedOperation): void;
  /** It was done at once. */
  afterQuick?(operation: ObservedOperation): void;
  /** A batch with so many operations leaves for the other ranks. */
  launched?(operations: number): void;
  /** The ranks have compared what they wait for, and all have this. Most operations learn that with their end. */
  agreed?(operation: ObservedOperation): void;
  stage?(operation: ObservedOperation, stage: OperationStage): void;
  /** It has ended, well or with `operation.error`. */
  settled?(operation: ObservedOperation): void;
  /** A blocking call waits; comes about every `waitingPeriodMs`, because no timer runs meanwhile. */
  waiting?(): void;
  /** A training step of this rank has ended. */
  step?(mark: StepMark): void;
  /** A new process set has this number. */
  processSetAdded?(processSet: number): void;
  /** The job has failed. */
  failed?(error: HorovodError): void;
  /** The context is closed. */
  close?(): void;
}

/** How often a blocking call lets observers know that it waits. */
export const waitingPeriodMs = 500;

const noMarks: readonly number[] = [];

/** What observers see of an operation. Fields are written by the engine, `isTraced` by observers. */
export class ObservedOperation {
  /** Counts the operations of this rank from 1, over all process sets. */
  sequence = 0;
  kind: RequestKind = 'allreduce';
  /** What ranks match it by (Description.key); empty for a quick one without a name. */
  key = '';
  /** The name as people see it. */
  name = '';
  /** Its number among the unnamed ones of its process set; 0: it has a name. */
  unnamed = 0;
  processSet = 0;
  isGrouped = false;
  dtype: DType | undefined = undefined;
  op: string | undefined = undefined;
  root: number | undefined = undefined;
  /** Of each tensor. Undefined: one tensor of `shape`, or of `[elements]` where that is undefined too. */
  shapes: readonly (readonly number[])[] | undefined = undefined;
  shape: readonly number[] | undefined = undefined;
  elements = 0;
  bytes = 0;
  /** Set by an observer in submitted(), beforeQuick() or at stage 'slow': the transport notes down its stages. */
  isTraced = false;
  /** 0 for quick ones: a look at the clock costs a fifth of them. */
  submittedAtMs = 0;
  /** When it first left for the other ranks, if it is traced. */
  leftAtMs = 0;
  /** To within some milliseconds for quick ones. */
  finishedAtMs = 0;
  /** Exchanges of pending lists that it took part in. */
  exchanges = 0;
  /** If it is traced: stage (transport/trace.ts), microseconds, stage, … */
  marks: ArrayLike<number> = noMarks;
  /** Code of the error it ended with. */
  error: string | undefined = undefined;
  /** It ended before it had begun: no other rank has heard of it. */
  isRejected = false;

  static of(description: Description, processSet: number): ObservedOperation {
    const operation = new ObservedOperation();
    const { key, kind, shapes, dtypes: types } = description;
    operation.kind = kind;
    operation.key = key;
    operation.name = nameOf(description);
    operation.unnamed = isUnnamed(key) ? Number(key.slice(1)) : 0;
    operation.processSet = processSet;
    operation.isGrouped = description.isGrouped;
    operation.dtype = types[0];
    operation.op = description.op;
    operation.root = description.root;
    operation.shapes = shapes;
    for (let i = 0; i < shapes.length; i++) {
      operation.bytes += bytesOf(shapes[i] as readonly number[], types[i] as DType);
    }
    return operation;
  }

  /** It leaves in a batch whose transport writes these marks. One that never got so far again keeps what it had. */
  leave(marks: ArrayLike<number>, atMs: number): void {
    if (this.leftAtMs === 0) this.leftAtMs = atMs;
    this.#earlierMarks = this.lastMarks;
    this.marks = marks;
  }

  get lastMarks(): ArrayLike<number> {
    return this.marks.length > 0 ? this.marks : this.#earlierMarks;
  }

  #earlierMarks: ArrayLike<number> = noMarks;
}

function bytesOf(shape: readonly number[], dtype: DType): number {
  let bytes = dtypes[dtype].bytes;
  for (const length of shape) bytes *= length;
  return bytes;
}

type BeforeQuick = Required<Pick<OperationObserver, 'beforeQuick'>>;
type AfterQuick = Required<Pick<OperationObserver, 'afterQuick'>>;

const nobody: BeforeQuick & AfterQuick = { beforeQuick() {}, afterQuick() {} };

/**
 * The observers of a rank. Those that want to hear of quick operations have *places*, each with a call of its own in the
 * code: so V8 can inline it. A loop over a list costs 20 ns more, 5 % of such an operation.
 */
export class Observers {
  readonly #log: Log;
  #all: readonly OperationObserver[] = [];
  #count = 0;
  #before1: BeforeQuick = nobody;
  #before2: BeforeQuick = nobody;
  #after1: AfterQuick = nobody;
  #after2: AfterQuick = nobody;
  #after3: AfterQuick = nobody;
  #after4: AfterQuick = nobody;

  constructor(log: Log) {
    this.#log = log;
  }

  /** They are called in this order. */
  attach(...observers: readonly OperationObserver[]): void {
    this.#use([...this.#all, ...observers]);
  }

  /** Nobody hears of anything any more: what the benchmarks compare with. */
  detachAll(): void {
    this.#use([]);
  }

  beforeQuick(operation: ObservedOperation): void {
    operation.sequence = ++this.#count;
    let calling: BeforeQuick = this.#before1;
    try {
      calling.beforeQuick(operation);
      calling = this.#before2;
      this.#before2.beforeQuick(operation);
    } catch (error) {
      this.#drop(calling, error);
    }
  }

  afterQuick(operation: ObservedOperation): void {
    let calling: AfterQuick = this.#after1;
    try {
      calling.afterQuick(operation);
      calling = this.#after2;
      this.#after2.afterQuick(operation);
      calling = this.#after3;
      this.#after3.afterQuick(operation);
      calling = this.#after4;
      this.#after4.afterQuick(operation);
    } catch (error) {
      this.#drop(calling, error);
    }
  }

  submitted(operation: ObservedOperation): void {
    operation.sequence = ++this.#count;
    this.#tell((observer) => observer.submitted?.(operation));
  }

  settled(operation: ObservedOperation): void {
    this.#tell((observer) => observer.settled?.(operation));
  }

  compiled(operation: ObservedOperation): void {
    this.#tell((observer) => observer.compiled?.(operation));
  }

  launched(operations: number): void {
    this.#tell((observer) => observer.launched?.(operations));
  }

  agreed(operation: ObservedOperation): void {
    this.#tell((observer) => observer.agreed?.(operation));
  }

  stage(operation: ObservedOperation, stage: OperationStage): void {
    this.#tell((observer) => observer.stage?.(operation, stage));
  }

  waiting(): void {
    this.#tell((observer) => observer.waiting?.());
  }

  step(mark: StepMark): void {
    this.#tell((observer) => observer.step?.(mark));
  }

  processSetAdded(processSet: number): void {
    this.#tell((observer) => observer.processSetAdded?.(processSet));
  }

  failed(error: HorovodError): void {
    this.#tell((observer) => observer.failed?.(error));
  }

  close(): void {
    this.#tell((observer) => observer.close?.());
  }

  #tell(event: (observer: OperationObserver) => void): void {
    for (const observer of this.#all) {
      try {
        event(observer);
      } catch (error) {
        this.#drop(observer, error);
      }
    }
  }

  #use(observers: readonly OperationObserver[]): void {
    const before = observers.filter((each): each is OperationObserver & BeforeQuick => 'beforeQuick' in each);
    const after = observers.filter((each): each is OperationObserver & AfterQuick => 'afterQuick' in each);
    assert(
      before.length <= 2 && after.length <= 4,
      'there is no place for one more observer of quick operations',
    );
    this.#all = observers;
    [this.#before1 = nobody, this.#before2 = nobody] = before;
    [this.#after1 = nobody, this.#after2 = nobody, this.#after3 = nobody, this.#after4 = nobody] = after;
  }

  #drop(failed: object, error: unknown): void {
    const observer = this.#all.find((each) => each === failed);
    if (observer === undefined) return;
    this.#use(this.#all.filter((each) => each !== observer));
    this.#log.write('warning', `${observer.name} failed and is off from here on: ${String(error)}`);
  }
}
