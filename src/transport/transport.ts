// Transport: who moves the bytes. The transport decides *what* runs and in which order; a transport runs it.
//
// Words. A *group* is one process set on a transport; its members are numbered 0 … size-1 (*index*, not global
// rank). Members go through *rounds* together: in a round every member posts a fingerprint of the operation
// it wants to run. All equal: the operation runs. Not all equal: nothing runs, no user byte is touched, and
// every member gets the outcome 'mismatch' for that round. A *job* is a list of rounds in order; only its
// first round can mismatch (the later ones follow from it).

import type { HorovodError } from '../errors.ts';
import type { CompressionKernels } from '../tensor/compression/kernels.ts';
import type { DType, TypedArray } from '../tensor/dtype.ts';
import type { HalfDType } from '../tensor/half-float.ts';
import type { ReduceOp } from '../tensor/reduce-op.ts';
import type { BatchTrace } from './trace.ts';

export type TransportName = 'shm' | 'tcp' | 'mpi' | 'gloo' | 'portable' | 'memory';

/**
 * outputs[i] = postscale · reduce over members (prescale · inputs[i]). `inputs[i]` and `outputs[i]` have the
 * same length and may be the same array. `op` is never Average here: that is Sum with a postscale. The
 * result is defined by tensor/reduce.ts (`reduceInto`): members are combined in index order.
 *
 * With `wire`, inputs and outputs are float32 and what travels and is reduced is the wire's dtype: to the members it is
 * the operation on halves that `narrow` makes of the inputs, whose result `widen` brings back (tensor/half-float.ts).
 */
export interface AllreduceOperation {
  readonly kind: 'allreduce';
  readonly dtype: DType;
  readonly wire?: HalfDType | undefined;
  readonly op: ReduceOp;
  readonly inputs: readonly TypedArray[];
  readonly outputs: readonly TypedArray[];
  readonly prescale: number;
  readonly postscale: number;
}

/** As allreduce, but member i gets only elements [Σ counts[<i], + counts[i]) into `output`. */
export interface ReducescatterOperation {
  readonly kind: 'reducescatter';
  readonly dtype: DType;
  readonly wire?: HalfDType | undefined;
  readonly op: ReduceOp;
  readonly input: TypedArray;
  readonly output: TypedArray;
  /** Elements of each member's part; their sum is input.length. */
  readonly counts: readonly number[];
  readonly prescale: number;
  readonly postscale: number;
}

/** Concatenates every member's bytes in index order. Sizes may differ; the transport learns them in the round. */
export interface AllgatherOperation {
  readonly kind: 'allgather';
  readonly input: Uint8Array;
  /** Set by the transport when the job is done. */
  output?: Uint8Array;
  /** Bytes of each member; set by the transport when the job is done. */
  byteCounts?: number[];
}

/** `output` becomes the root's `input` (on the root too, where they may be one array). */
export interface BroadcastOperation {
  readonly kind: 'broadcast';
  readonly root: number;
  readonly input: Uint8Array;
  readonly output: Uint8Array;
}

/** Sends the next sendBytes[i] bytes of `input` to member i; receives in index order. */
export interface AlltoallOperation {
  readonly kind: 'alltoall';
  readonly input: Uint8Array;
  readonly sendBytes: readonly number[];
  /** Set by the transport when the job is done. */
  output?: Uint8Array;
  receivedBytes?: number[];
}

export interface BarrierOperation {
  readonly kind: 'barrier';
}

export type TransportOperation =
  | AllreduceOperation
  | ReducescatterOperation
  | AllgatherOperation
  | BroadcastOperation
  | AlltoallOperation
  | BarrierOperation;

/** The dtype that travels. */
export function wireDType({ dtype, wire }: AllreduceOperation | ReducescatterOperation): DType {
  return wire ?? dtype;
}

export interface Round {
  /** 64 bits that say what this is; two unsigned 32-bit halves. */
  readonly fingerprintLow: number;
  readonly fingerprintHigh: number;
  readonly operation: TransportOperation;
}

export interface Batch {
  readonly rounds: readonly Round[];
  /** Do not post the first round before another member has posted it: this member has nothing new to say. */
  readonly passive: boolean;
  /** From the start of waiting; after it the wait fails with ERR_HVD_TIMEOUT. */
  readonly timeoutMs: number;
  /** Sync forms only: called each time the wait has lasted another `stallAfterMs`; 0 turns it off. */
  readonly stallAfterMs: number;
  readonly onStall?: (missing: number[]) => void;
  /** What to call the job in error texts: 'allreduce "grad"'. */
  readonly label: string;
  /** Nobody has to come to it: where all see who has shut down, that ends the group, and not the job of all ranks. */
  readonly isOptional?: boolean | undefined;
  /** Filled by the transport while a timeline is on. */
  readonly trace?: BatchTrace;
}

export type Outcome = 'done' | 'mismatch';

/**
 * A shorter way for the transport's most frequent operation, where a transport has one. Numbers: 0 is done, anything
 * else goes to settleSync(), which waits on, returns an outcome or throws, as runSync() would.
 */
export interface QuickAllreduce {
  /** One allreduce of one array, blocking; `output` undefined: in place. Default deadline. */
  allreduceNow(
    input: TypedArray,
    output: TypedArray | undefined,
    dtypeAndOp: number,
    fingerprintLow: number,
    fingerprintHigh: number,
    postscale: number,
  ): number;
  /**
   * The promise form of it: 0 or another status, or undefined if it goes on in the background. Then the caller
   * must at once say adopt(job, complete), which is submit() for what has begun already.
   */
  allreduceSoon(
    input: TypedArray,
    output: TypedArray | undefined,
    dtypeAndOp: number,
    fingerprintLow: number,
    fingerprintHigh: number,
    postscale: number,
  ): number | undefined;
  adopt(batch: Batch, complete: (outcome: Outcome | HorovodError) => void): void;
  /** The same as allreduceNow for a round that runs again and again; the caller keeps its arrays alive and attached. */
  prepareRun(round: Round, batch: Batch): () => number;
  settleSync(status: number, batch: Batch): Outcome;
  /** Whether the next quick operations note down their stages. */
  isTraced: boolean;
  /** Of the last one: stage, microseconds, stage, … */
  readonly lastMarks: Float64Array;
  /** When the last quick operation ended, in ms of the host's monotonic clock, to within a few ms. */
  lastFinishedAtMs(): number;
}

export interface TransportGroup {
  readonly index: number;
  readonly size: number;
  readonly quick?: QuickAllreduce;
  /**
   * Queues the job; `complete` is called once, on the main thread, at the earliest after submit() has
   * returned unless `submit` itself returns the outcome (it could run at once). Jobs run in order of submission.
   */
  submit(batch: Batch, complete: (outcome: Outcome | HorovodError) => void): Outcome | undefined;
  /** Runs the job, blocking this thread. Only while no other job of this group is queued. */
  runSync(batch: Batch): Outcome;
  /** Blocks until a submitted job is over; its `complete` will not be called. */
  waitSync(batch: Batch): Outcome;
  /**
   * Takes back every queued job whose first round has not been posted. After a mismatch the group starts no
   * further job until this has been called.
   */
  takeBack(): Batch[];
  /** Members that have not posted the current round. */
  missing(): number[];
  /**
   * Up to how many bytes an allreduce between hosts takes the way for small ones, where the transport has two. To be called
   * while nothing is in flight, on all members at the same point.
   */
  setSwitchBytes?(bytes: number): void;
  close(): void;
}

export interface GroupSpec {
  /** Two groups that are opened at the same time may have the same one, but then not the same members. */
  readonly id: number;
  /** Global ranks of the members; a member's index is its place here. */
  readonly members: readonly number[];
  readonly index: number;
  /** Every member gives a text and gets those of all, in order of index. For one call by each member. */
  exchange(text: string): Promise<readonly string[]>;
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs: number;
  /** Undefined: as the transport was told when it was made. */
  readonly hierarchy?: Hierarchy | undefined;
}

/** What goes by host first, through its shared memory, where a group has several members on a host; else it is flat. */
export interface Hierarchy {
  readonly allreduce: boolean;
  readonly allgather: boolean;
}

/**
 * Whether a submitted job goes on while the main thread computes: not at all ('none'), on a thread that takes its
 * time from the ranks' own computation ('crowded'), or on a thread that finds a core free ('spare').
 */
export type Background = 'none' | 'crowded' | 'spare';

/** A WebAssembly.Memory: growing gives it another buffer. */
export interface GrowingMemory {
  readonly buffer: ArrayBufferLike;
}

export interface Transport {
  readonly name: TransportName;
  /** False where a blocked thread would stop other members (several ranks in one process). */
  readonly canBlock: boolean;
  readonly background: Background;
  /** Loops of lossy compression. Undefined: those of tensor/compression/kernels.ts. */
  readonly kernels?: CompressionKernels | undefined;
  /** Collective over the members. */
  openGroup(spec: GroupSpec): Promise<TransportGroup>;
  /** Memory that other members can reach without a copy, where the transport has such a thing. */
  alloc(bytes: number): ArrayBufferLike;
  /**
   * Lets other members reach the memory of a WebAssembly module, as it is now, without a copy, where the transport can. Cheap
   * to ask again; to be asked again after the memory has grown. The transport keeps the memory alive until it is closed.
   */
  adopt(memory: GrowingMemory): void;
  close(): void;
}
