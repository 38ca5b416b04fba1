// A transport moves the bytes. The engine decides which operations run and in which order; a transport runs them.
//
// Words. A *group* is one process set on a transport; its members are numbered 0 … size-1 (*index*, not global
// rank). Members go through *rounds* together: in a round every member posts a fingerprint of the operation
// it wants to run. If all fingerprints are equal, the operation runs. If not, nothing runs, no user byte is touched, and
// every member gets the outcome 'mismatch' for that round. A *batch* is a list of rounds in order; only its
// first round can mismatch, because the later ones follow from it.

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
 * With `wire`, inputs and outputs are float32, but the wire's dtype is what travels and is reduced: `narrow` converts the
 * inputs to halves, the operation runs on these, and `widen` converts the result back (tensor/half-float.ts).
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
  /** Set by the transport when the batch is done. */
  output?: Uint8Array;
  /** Bytes of each member; set by the transport when the batch is done. */
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
  /** Set by the transport when the batch is done. */
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

/** The dtype in which values travel. */
export function wireDType({ dtype, wire }: AllreduceOperation | ReducescatterOperation): DType {
  return wire ?? dtype;
}

export interface Round {
  /** A hash of all that the members must agree on: 64 bits as two unsigned 32-bit halves. */
  readonly fingerprintLow: number;
  readonly fingerprintHigh: number;
  readonly operation: TransportOperation;
}

export interface Batch {
  readonly rounds: readonly Round[];
  /** Post the first round only after another member has posted it: this member has nothing new to offer. */
  readonly passive: boolean;
  /** Counted from the start of waiting. After that, the wait fails with ERR_HVD_TIMEOUT. */
  readonly timeoutMs: number;
  /** Sync forms only: `onStall` is called whenever the wait has lasted another `stallAfterMs`; 0 turns it off. */
  readonly stallAfterMs: number;
  readonly onStall?: (missing: number[]) => void;
  /** Names the batch in error texts: 'allreduce "grad"'. */
  readonly label: string;
  /** If a member shuts down instead of taking part, that ends this group only and does not fail the job. */
  readonly isOptional?: boolean | undefined;
  /** The first batch of a group. If it fails, this group does not open on this member; the job has not failed. */
  readonly isOpening?: boolean | undefined;
  /** Filled by the transport while a timeline is on. */
  readonly trace?: BatchTrace;
}

export type Outcome = 'done' | 'mismatch';

/** An operation as numbers, without its arrays: what a transport needs of it besides them. Made once, by QuickPath.compile(). */
export interface QuickOperation {
  /** Kind, dtype, operator and wire. */
  readonly code: number;
  readonly root: number;
  readonly prescale: number;
  readonly postscale: number;
  readonly counts: readonly number[];
  /** Of arrays; of a group there are lists of them. */
  readonly isList: boolean;
}

/** Where the result of a quick operation goes: into the input, into the output, or into `QuickPath.small`. */
export const quickPlaces: { readonly input: 0; readonly output: 1; readonly small: 2 } = {
  input: 0,
  output: 1,
  small: 2,
};
export type QuickPlace = 0 | 1 | 2;

/** The array of a quick operation, or those of a group; undefined: it has none. */
export type QuickArrays = TypedArray | readonly TypedArray[] | undefined;

export function bytesInArrays(arrays: QuickArrays): number {
  if (arrays === undefined) return 0;
  if (ArrayBuffer.isView(arrays)) return (arrays as TypedArray).byteLength;
  let bytes = 0;
  for (const array of arrays as readonly TypedArray[]) bytes += array.byteLength;
  return bytes;
}

/** Of an allgather or alltoall whose result has another size than the output: its memory, and the bytes of each member. */
export type QuickResult = [memory: ArrayBuffer, receivedBytes: number[]];

/**
 * A shorter path for an operation by itself, where a transport has one. Calls return a status: 0 is done; or the result, if
 * it is larger or smaller than the output. Pass anything else to settleSync(), which keeps waiting, returns an outcome or
 * throws, as runSync() would; the result is then in the output, never in `small`.
 */
export interface QuickPath {
  compile(operation: TransportOperation): QuickOperation;
  /** A blocking call, with the default deadline. */
  runNow(
    operation: QuickOperation,
    input: QuickArrays,
    output: QuickArrays,
    place: QuickPlace,
    fingerprintLow: number,
    fingerprintHigh: number,
  ): number | QuickResult;
  /**
   * Its promise form. Returns undefined if the operation continues in the background; then the caller must immediately
   * call adopt(batch, complete), which is submit() for an operation that has already begun.
   */
  runSoon(
    operation: QuickOperation,
    input: QuickArrays,
    output: QuickArrays,
    place: QuickPlace,
    fingerprintLow: number,
    fingerprintHigh: number,
  ): number | QuickResult | undefined;
  adopt(batch: Batch, complete: (outcome: Outcome | HorovodError) => void): void;
  /**
   * Memory for results of up to smallBytes. V8 moves the memory of a new small array when native code asks where it is, which
   * takes longer than the operation.
   */
  readonly small: ArrayBufferLike;
  readonly smallAt: number;
  /** After an allgather or alltoall that fitted: the bytes from each member, in its first elements. */
  readonly received: Float64Array;
  /** runNow() for a round that runs repeatedly; the caller keeps its arrays alive and attached. */
  prepareRun(round: Round, batch: Batch): () => number;
  settleSync(status: number, batch: Batch): Outcome;
  /** Whether the next quick operations record their stages. */
  isTraced: boolean;
  /** Stages of the last quick operation: stage, microseconds, stage, … */
  readonly lastMarks: Float64Array;
  /** When the last quick operation ended, in ms of the host's monotonic clock, to within a few ms. */
  lastFinishedAtMs(): number;
}

/** The largest result that fits into QuickPath.small. */
export const smallBytes = 64;

export interface TransportGroup {
  readonly index: number;
  readonly size: number;
  readonly quick?: QuickPath;
  /**
   * Queues the batch. If it can run at once, the outcome is returned; otherwise `complete` is called once, on the main
   * thread, after submit() has returned. Batches run in order of submission.
   */
  submit(batch: Batch, complete: (outcome: Outcome | HorovodError) => void): Outcome | undefined;
  /** Runs the batch, blocking this thread. Only while no other batch of this group is queued. */
  runSync(batch: Batch): Outcome;
  /** Blocks until a submitted batch is over; its `complete` will not be called. */
  waitSync(batch: Batch): Outcome;
  /**
   * Takes back every queued batch whose first round has not been posted. After a mismatch the group starts no
   * further batch until this has been called.
   */
  takeBack(): Batch[];
  /** Members that have not posted the current round. */
  missing(): number[];
  /**
   * Sets up to how many bytes an allreduce between hosts uses the algorithm for small tensors, where the transport has two.
   * Call it while nothing is in flight, on all members at the same point.
   */
  setSwitchBytes?(bytes: number): void;
  close(): void;
}

export interface GroupSpec {
  /** Groups that open at the same time may share an id only if their members differ. */
  readonly id: number;
  /** Global ranks of the members; a member's index is its place here. */
  readonly members: readonly number[];
  readonly index: number;
  /** Every member passes a text and gets those of all members, in index order. Each member calls it once. */
  exchange(text: string): Promise<readonly string[]>;
  /** Ends the opening: it throws, and nothing of the group is left. */
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs: number;
  /** Default: as set when the transport was created. */
  readonly hierarchy?: Hierarchy | undefined;
}

/** Which operations combine the members of a host first (hierarchical) rather than all members at once (flat). */
export interface Hierarchy {
  readonly allreduce: boolean;
  readonly allgather: boolean;
}

/**
 * Whether a submitted batch progresses while the main thread computes: not at all ('none'), on a thread that competes
 * with the ranks' computation for cores ('crowded'), or on a thread that finds a free core ('spare').
 */
export type Background = 'none' | 'crowded' | 'spare';

/** A WebAssembly.Memory: its buffer is replaced when it grows. */
export interface GrowingMemory {
  readonly buffer: ArrayBufferLike;
}

export interface Transport {
  readonly name: TransportName;
  /** False where a blocked thread would stop other members, because several ranks share the process. */
  readonly canBlock: boolean;
  readonly background: Background;
  /** Bytes between hosts are encrypted. */
  readonly isEncrypted?: boolean;
  /** Kernels for lossy compression. Default: those of tensor/compression/kernels.ts. */
  readonly kernels?: CompressionKernels | undefined;
  /** Collective over the members. */
  openGroup(spec: GroupSpec): Promise<TransportGroup>;
  /** Memory that other members can reach without a copy, where the transport supports that. */
  alloc(bytes: number): ArrayBufferLike;
  /**
   * Lets other members reach the current memory of a WebAssembly module without a copy, where the transport supports
   * that. Call it again after the memory has grown; repeated calls are cheap. The transport keeps the memory alive until close().
   */
  adopt(memory: GrowingMemory): void;
  /**
   * Call it when the job has failed and the failure is recorded. Blocks, two seconds at most, until no other process writes
   * into the memory of operations in flight, or can begin to. Returns the error to end them with: the failure, unless that
   * cannot be promised. Only where ranks write into each other's memory; repeated calls are cheap.
   */
  fence?(failure: HorovodError): HorovodError;
  close(): void;
}

/** For people: 'tcp', or 'tcp, encrypted between hosts'. */
export function transportText({ name, isEncrypted }: Pick<Transport, 'name' | 'isEncrypted'>): string {
  return isEncrypted === true ? `${name}, encrypted between hosts` : name;
}
