// The native addon as TypeScript sees it; native/src/node is the other side.

import type { CompressionKernels } from '../../tensor/compression/kernels.ts';
import type { TypedArray } from '../../tensor/dtype.ts';

/** Counts changes of what the addon exports; native/src/node/addon.cc has the same number. */
export const interfaceVersion = 4;

/** A mapped control block with this process's life word. */
export type NativeControl = { readonly brand: 'control' };
/** Memory that alloc() hands out. */
export type NativeArena = { readonly brand: 'arena' };

/** What an transport offers to the other members; see offerTransport(). */
export type NativeTransportOffer = { readonly brand: 'transport offer' };
/** What moves bytes between hosts, other than tcp. */
export type NativeTransport = { readonly brand: 'transport' };

/** [ArrayBuffer, bytes from each member]: what allgather and alltoall give back. */
export type NativeResult = [ArrayBuffer, number[]];

/** Tensors of TensorFlow's; gone after offerTensors() or releaseTensors(). */
export type NativeTensorList = { readonly brand: 'tensors' };

export interface NativeAddon {
  readonly instructionSet: string;
  readonly interfaceVersion: number;
  readonly bytesPerMember: number;
  openControl(fd: number, rank: number, ranks: number): NativeControl;
  closeControl(control: NativeControl): void;
  openArena(): NativeArena;
  /** Undefined: no memory. Null: this build of V8 takes no memory from outside. */
  alloc(arena: NativeArena, bytes: number): ArrayBuffer | undefined | null;
  /** Makes the pages of this memory the arena's; false if they cannot be. Whole pages, and nobody may free them. */
  adopt(arena: NativeArena, memory: ArrayBuffer): boolean;
  openGroup(
    control: NativeControl,
    arena: NativeArena,
    fd: number,
    ranks: Int32Array,
    index: number,
    spins: number,
    timeoutMs: number,
    stallMs: number,
    report: (id: number, status: number, results: (NativeResult | undefined)[]) => void,
    /** What quick calls say and hear besides their arrays; the caller keeps it alive. */
    mailbox: Float64Array,
  ): NativeGroup;
  /** A group whose members are connected by sockets; those of one host, in hierarchical mode, by shared memory as well. */
  openClusterGroup(
    control: NativeControl,
    arena: NativeArena,
    ranks: Int32Array,
    /** A number for the host of each member. */
    hosts: Int32Array,
    index: number,
    /** The segment of this host's members, bytesPerMember each; -1 for a member alone on its host, and in flat mode. */
    segmentFd: number,
    /** A descriptor for each member, or -1; the addon duplicates them. Where some operations go flat, those for them follow. */
    sockets: Int32Array,
    /** 1: the ready byte comes first; 0: it is to be sent. */
    accepted: Int32Array,
    /** What is hierarchical. Bit 0: all but allgather. Bit 1: allgather. 0: all operations are flat. */
    mode: number,
    transport: 'tcp' | NativeTransport,
    spins: number,
    timeoutMs: number,
    stallMs: number,
    report: (id: number, status: number, results: (NativeResult | undefined)[]) => void,
    mailbox: Float64Array,
  ): NativeGroup;
  /** The addons of mpi and gloo only. 'mpi' or 'gloo'. */
  readonly engineName?: string;
  readonly transportLibrary?: string;
  /** The text is for the other members. A string: why there is no transport. */
  offerTransport?(
    control: NativeControl,
    size: number,
    index: number,
    address: string,
    timeoutMs: number,
    isSingleThreaded: boolean,
  ): Promise<[NativeTransportOffer, string] | string>;
  /** Collective. `texts` of all members in the order of the transport. A string: why there is no transport. */
  openTransport?(
    offer: NativeTransportOffer,
    texts: readonly string[],
    timeoutMs: number,
  ): Promise<NativeTransport | string>;
  /** When the process ends. */
  closeTransports?(isHealthy: boolean): void;
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
  /** Functions that check their arrays and numbers, and throw a RangeError if these do not fit together. */
  readonly compressionKernels: CompressionKernels;
  /** The names of TensorFlow's new operations, one that takes tensors and one that gives some; or why there are none. */
  connectTensorflow(): [string, string] | string;
  /** What the take operation took; undefined if it has not run. */
  collectTensors(): NativeTensorList | undefined;
  /** Copies tensors that others can see too, and fills in the addresses of all. */
  ownTensors(list: NativeTensorList, addresses: Float64Array): void;
  /** Dangling once the list is gone. Null: this build of V8 takes no memory from outside. */
  tensorMemory(list: NativeTensorList, index: number): ArrayBuffer | null;
  copyTensors(list: NativeTensorList, into: readonly TypedArray[]): void;
  /** `dtype` is TensorFlow's number. */
  makeTensors(dtype: number, shapes: readonly number[][], values: readonly TypedArray[]): NativeTensorList;
  /** The next give operation gives these. */
  offerTensors(list: NativeTensorList): void;
  releaseTensors(list: NativeTensorList): void;
}

/** Numbers are statuses (transport/native/codes.ts). */
export interface NativeGroup {
  /** Everything but the arrays is in the mailbox given to openGroup(). */
  allreduceNow(input: TypedArray, output: TypedArray | undefined): number;
  /** -1: it goes on in the background and will be reported under this id. */
  allreduceSoon(
    input: TypedArray,
    output: TypedArray | undefined,
    id: number,
    tryForMicroseconds: number,
  ): number;
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
  waitSync(id: number, stallMs: number): number | [number, (NativeResult | undefined)[]] | undefined;
  takeBack(): number[];
  missing(): number[];
  /** Up to how many bytes an allreduce between hosts takes the way for small ones; the same on all members, while nothing is in flight. */
  setSwitchBytes?(bytes: number): void;
  culprit(): number;
  errno(): number;
  probe(allowed: number): boolean;
  prepareRun(
    description: Float64Array,
    inputs: readonly TypedArray[],
    outputs: readonly TypedArray[],
  ): () => number;
  close(): void;
}
