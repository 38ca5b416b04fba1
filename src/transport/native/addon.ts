// The native addon as TypeScript sees it; native/src/node is the other side.

import type { CompressionKernels } from '../../tensor/compression/kernels.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import type { QuickArrays, QuickResult } from '../transport.ts';

/** Increased whenever the addon's exports change; native/src/node/addon.cc has the same number. */
export const interfaceVersion = 11;

/** A mapped control block with this process's life word. */
export type NativeControl = { readonly brand: 'control' };
/** Memory that alloc() hands out. */
export type NativeArena = { readonly brand: 'arena' };

/** The arena of another process on this host. */
export type NativePeerArena = { readonly brand: 'peer arena' };

/** What a member offers to the others before a cross transport opens. */
export type NativeCrossTransportOffer = { readonly brand: 'cross transport offer' };
/** Ends what is waited for on other threads while a cross transport opens. */
export type NativeCancellation = { readonly brand: 'cancellation' };
/** Moves bytes between hosts with the library of mpi or gloo. */
export type NativeCrossTransport = { readonly brand: 'cross transport' };

/** [ArrayBuffer, bytes from each member]: the result of allgather and alltoall. */
export type NativeResult = QuickResult;

/** Tensors of TensorFlow; invalid after offerTensors() or releaseTensors(). */
export type NativeTensorList = { readonly brand: 'tensors' };

export interface NativeAddon {
  readonly instructionSet: string;
  readonly interfaceVersion: number;
  readonly bytesPerMember: number;
  /** The function of libcrypto that this process lacks and encryption needs; empty if it can encrypt. */
  readonly encryptionLack: string;
  openControl(fd: number, rank: number, ranks: number): NativeControl;
  closeControl(control: NativeControl): void;
  /**
   * The job has failed: no rank begins to write into the memory of another one any more. Blocks until none is writing into
   * the memory of this process; returns the rank that may still do so when the time is over, -1 if there is none.
   */
  fence(control: NativeControl, killAfterMs: number, giveUpAfterMs: number): number;
  /** For tests: this process stops (SIGSTOP) with its `count`-th write into the memory of another rank begun. */
  stopAtTouch(count: number): void;
  openArena(): NativeArena;
  /** The blocks of alloc() that contain these arrays are never used again. False if one lies elsewhere. */
  retire(arena: NativeArena, arrays: readonly TypedArray[]): boolean;
  /** Call it when all groups are closed. The memory that alloc() has handed out stays valid. */
  closeArena(arena: NativeArena): void;
  /** Undefined: no memory. Null: this build of V8 does not accept external memory. */
  alloc(arena: NativeArena, bytes: number): ArrayBuffer | undefined | null;
  /** Moves the pages of this memory into the arena; false if that is impossible. Whole pages, which must not be freed. */
  adopt(arena: NativeArena, memory: ArrayBuffer): boolean;
  /** The descriptor of its file in this process, and a number that tells it from other arenas of this machine. */
  arenaFile(arena: NativeArena): [descriptor: number, id: number];
  /** Where the array lies in the file; −1: not in this arena. */
  arenaOffset(arena: NativeArena, array: Uint8Array): number;
  /** Opens nothing yet. */
  openPeerArena(pid: number, descriptor: number, id: number): NativePeerArena;
  /** False: that part of the arena cannot be reached; it is of another user or machine, or its process is gone. */
  copyFromPeer(peer: NativePeerArena, offset: number, target: Uint8Array): boolean;
  /** Twice is fine. */
  closePeerArena(peer: NativePeerArena): void;
  /** A group of members on this host. */
  openGroup(options: NativeGroupOptions): NativeGroup;
  /** A group whose members are connected by sockets; if hierarchical, those of one host by shared memory as well. */
  openClusterGroup(options: NativeClusterGroupOptions): NativeGroup;
  /** These and the three that follow: only in the addons of mpi and gloo. */
  newCancellation?(): NativeCancellation;
  cancel?(cancellation: NativeCancellation): void;
  /** The text is for the other members. A string: the reason of the failure. */
  offerCrossTransport?(options: NativeOfferOptions): Promise<[NativeCrossTransportOffer, string] | string>;
  /** Collective. `texts` of all members, in order. A string: the reason of the failure. */
  openCrossTransport?(
    offer: NativeCrossTransportOffer,
    texts: readonly string[],
    timeoutMs: number,
  ): Promise<NativeCrossTransport | string>;
  /** Call it when the process ends. */
  closeCrossTransports?(isHealthy: boolean): void;
  /** For tests: 'avx512', 'avx2' or 'baseline'; false if this processor does not have it. */
  useInstructionSet(name: string): boolean;
  /** The kernels alone, for tests. */
  reduceNow(
    output: TypedArray,
    inputs: readonly TypedArray[],
    dtype: number,
    op: number,
    prescale: number,
    postscale: number,
  ): void;
  /** The conversions alone, for tests; `dtype` is the code of float16 or bfloat16. */
  narrowNow(output: Uint16Array, input: Float32Array, dtype: number): void;
  widenNow(output: Float32Array, input: Uint16Array, dtype: number): void;
  /** These check their arguments, and throw a RangeError if arrays and numbers do not fit together. */
  readonly compressionKernels: CompressionKernels;
  /** The loops over TFRecord files; their definition is in src/data/formats/tfrecord/record-kernels.ts. */
  readonly recordKernels: NativeRecordKernels;
  /** How they compute checksums: 'sse4.2', 'armv8' or 'tables'. */
  readonly crc32cMethod: string;
  /**
   * The training kernels for this processor; by default the best set. Undefined: it does not have the set of that name
   * ('avx512', 'avx2', 'neon', 'baseline').
   */
  computeKernels(set?: string): NativeComputeKernels | undefined;
  /** Registers two operations with TensorFlow, take and give; returns their names, or a string: the reason of the failure. */
  connectTensorflow(): [string, string] | string;
  /** The inputs of the last take operation; undefined if it has not run. */
  collectTensors(): NativeTensorList | undefined;
  /** Makes the tensors' memory exclusive to the list (shared memory is copied), and fills in the addresses. */
  ownTensors(list: NativeTensorList, addresses: Float64Array): void;
  /** Dangling once the list is gone. Null: this build of V8 does not accept external memory. */
  tensorMemory(list: NativeTensorList, index: number): ArrayBuffer | null;
  copyTensors(list: NativeTensorList, into: readonly TypedArray[]): void;
  /** `dtype` is TensorFlow's number for it. */
  makeTensors(dtype: number, shapes: readonly number[][], values: readonly TypedArray[]): NativeTensorList;
  /** The outputs of the next give operation. */
  offerTensors(list: NativeTensorList): void;
  releaseTensors(list: NativeTensorList): void;
}

/**
 * The functions of native/wasm, compiled for one instruction set; besides `set`, each property is one. They work in the memory, in
 * which pointers are offsets in bytes, and throw a RangeError if the arguments lead out of it.
 */
export interface NativeComputeKernels {
  readonly set: string;
  readonly [kernel: string]: string | ((memory: ArrayBuffer, ...values: number[]) => number);
}

/** These check their arguments, and throw a RangeError if arrays and numbers do not fit together. */
export interface NativeRecordKernels {
  crc32c(bytes: Uint8Array, start: number, end: number): number;
  scanRecords(
    chunk: Uint8Array,
    from: number,
    checksData: boolean,
    starts: Uint32Array,
    lengths: Uint32Array,
    report: Float64Array,
  ): number;
}

/** Called when a batch that was submitted is over. */
export type NativeReport = (id: number, status: number, results: (NativeResult | undefined)[]) => void;

export interface NativeGroupOptions {
  readonly control: NativeControl;
  readonly arena: NativeArena;
  /** Global ranks of the members. */
  readonly ranks: Int32Array;
  readonly index: number;
  /** The memory that the members on this host share, bytesPerMember each; -1 if there is none. */
  readonly segmentFd: number;
  /** How often a waiting thread polls before it yields. */
  readonly spins: number;
  /** Limits of the quick calls. */
  readonly timeoutMs: number;
  readonly stallAfterMs: number;
  /** How long close() waits for members that write into the memory of this one. */
  readonly handsOffMs: number;
  readonly report: NativeReport;
  /** Arguments and results of quick calls besides their arrays; the caller keeps it alive. */
  readonly mailbox: Float64Array;
}

export interface NativeClusterGroupOptions extends NativeGroupOptions {
  /** The number of each member's host. */
  readonly hosts: Int32Array;
  /**
   * A descriptor for each member, or -1; the addon duplicates them. If only one of the two below is true, those for flat
   * operations follow.
   */
  readonly sockets: Int32Array;
  /** For each socket: 1 if the ready byte is received first, 0 if it is sent. */
  readonly accepted: Int32Array;
  /** For each socket: 32 bytes to send with and 32 to receive with; undefined: its bytes are not encrypted. */
  readonly keys: readonly (Uint8Array | undefined)[];
  /** Of all operations but allgather; false: flat. */
  readonly hierarchicalAllreduce: boolean;
  readonly hierarchicalAllgather: boolean;
  readonly transport: 'tcp' | NativeCrossTransport;
}

export interface NativeOfferOptions {
  readonly control: NativeControl;
  /** Members of the cross transport, and this member's place among them. */
  readonly size: number;
  readonly index: number;
  /** An address of this host that the others reach. */
  readonly address: string;
  readonly timeoutMs: number;
  readonly isSingleThreaded: boolean;
  readonly cancellation: NativeCancellation;
}

/** Numbers that are returned are statuses (codes.ts). */
export interface NativeGroup {
  /** All arguments but the arrays are in the mailbox. */
  runNow(input: QuickArrays, output: QuickArrays): number | NativeResult;
  /** -1: it continues in the background and will be reported under this id. */
  runSoon(
    input: QuickArrays,
    output: QuickArrays,
    id: number,
    tryForMicroseconds: number,
  ): number | NativeResult;
  run(
    description: Float64Array,
    inputs: readonly TypedArray[],
    outputs: readonly TypedArray[],
  ): number | NativeResult;
  resume(): number | NativeResult;
  submit(
    id: number,
    descriptions: readonly Float64Array[],
    inputs: readonly (readonly TypedArray[])[],
    outputs: readonly (readonly TypedArray[])[],
    tryForMicroseconds: number,
  ): number | NativeResult;
  waitSync(id: number, stallAfterMs: number): number | [number, (NativeResult | undefined)[]] | undefined;
  /** After a failure of the job: blocks until the group's thread works on no batch, or the time is over. */
  settle(timeoutMs: number): void;
  takeBack(): number[];
  missing(): number[];
  /** As TransportGroup.setSwitchBytes(). */
  setSwitchBytes?(bytes: number): void;
  culprit(): number;
  errno(): number;
  probe(allowed: number): boolean;
  /** All members of this host try which ways are faster, if all want it. -1: it will be reported under this id. */
  calibrate(id: number, wanted: number, timeoutMs: number): number;
  prepareRun(
    description: Float64Array,
    inputs: readonly TypedArray[],
    outputs: readonly TypedArray[],
  ): () => number;
  /** The rank that may still write into this member's memory; -1 if there is none. */
  close(): number;
}
