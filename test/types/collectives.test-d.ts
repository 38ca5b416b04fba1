// What the compiler must accept and refuse of the collectives. Never run: compiled against dist/index.d.ts,
// where an `@ts-expect-error` without an error is an error itself.

import {
  Average,
  allgather,
  allgatherObject,
  allgatherObjectSync,
  allgatherSync,
  alloc,
  allreduce,
  allreduceSync,
  alltoall,
  alltoallSync,
  barrier,
  barrierSync,
  broadcast,
  broadcastObject,
  broadcastObjectSync,
  broadcastSync,
  Compression,
  type DType,
  groupedAllgather,
  groupedAllgatherSync,
  groupedAllreduce,
  groupedAllreduceSync,
  groupedReducescatter,
  groupedReducescatterSync,
  join,
  joinSync,
  Max,
  Min,
  type PreparedCollective,
  Product,
  prepareAllreduce,
  type ReduceOp,
  reducescatter,
  reducescatterSync,
  Sum,
  type Tensor,
  type TensorLike,
  type TypedArray,
  tensor,
} from 'horovod';

const floats = new Float32Array(4);
const ints = new Int32Array(4);
const bigs = new BigInt64Array(4);
const matrix = tensor(new Float64Array(6), [2, 3]);
const half = tensor(new Uint16Array(6), [2, 3], 'bfloat16');
const { signal } = new AbortController();

// You get back the kind you gave.
export const reducedFloats: Float32Array = await allreduce(floats);
export const reducedInts: Int32Array = allreduceSync(ints, { op: Sum });
export const reducedBigs: BigInt64Array = await allreduce(bigs, { op: Max });
export const reducedMatrix: Tensor<Float64Array> = await allreduce(matrix);
export const reducedHalf: Tensor<Uint16Array> = allreduceSync(half);
// @ts-expect-error a Float32Array does not become an Int32Array
export const wrongArray: Int32Array = await allreduce(floats);
// @ts-expect-error a promise is not its value
export const notAwaited: Float32Array = allreduce(floats);
// @ts-expect-error the Sync form returns no promise
allreduceSync(floats).then(() => {});

// Every option, and nothing else.
await allreduce(floats, {
  op: Average,
  prescaleFactor: 0.5,
  postscaleFactor: 2,
  compression: Compression.fp16,
  inPlace: true,
  name: 'gradient',
  signal,
  timeoutMs: 1_000,
});
allreduceSync(floats, { compression: Compression.none });
allreduceSync(floats, { compression: Compression.bf16 });
// @ts-expect-error an operator is a value of this package, not a string
await allreduce(floats, { op: 'Sum' });
// @ts-expect-error misspelt option
await allreduce(floats, { prescale: 2 });
// @ts-expect-error plain arrays are not tensors
await allreduce([1, 2, 3]);
// @ts-expect-error DataView has no elements
await allreduce(new DataView(new ArrayBuffer(8)));

export const operators: ReduceOp[] = [Average, Sum, Min, Max, Product];

// Grouped forms keep the order and the kinds.
export const group: Float32Array[] = await groupedAllreduce([floats, floats], { op: Sum });
export const groupSync: Float32Array[] = groupedAllreduceSync([floats, floats], { inPlace: true });
export const gathered: Float32Array[] = await groupedAllgather([floats]);
export const gatheredSync: Int32Array[] = groupedAllgatherSync([ints]);
export const scattered: Float32Array[] = await groupedReducescatter([floats], { op: Sum });
export const scatteredSync: Float32Array[] = groupedReducescatterSync([floats]);

export const all: Float32Array = await allgather(floats, { name: 'all' });
export const allSync: Tensor<Float64Array> = allgatherSync(matrix);
export const part: Float32Array = await reducescatter(floats, { op: Sum });
export const partSync: Float32Array = reducescatterSync(floats, { op: Average, prescaleFactor: 2 });

export const fromRoot: Float32Array = await broadcast(floats, 0, { inPlace: true });
export const fromRootSync: Int32Array = broadcastSync(ints, 1);
// @ts-expect-error the root is required
await broadcast(floats);
// @ts-expect-error the root is a rank, not a name
broadcastSync(floats, '0');

const exchanged = await alltoall(floats, { splits: [1, 3] });
export const exchangedOutput: Float32Array = exchanged.output;
export const exchangedSplits: Int32Array = exchanged.receivedSplits;
export const exchangedSync: { output: Float32Array; receivedSplits: Int32Array } = alltoallSync(floats);
await alltoall(floats, { splits: new Int32Array([2, 2]) });
// @ts-expect-error splits are numbers
await alltoall(floats, { splits: ['2', '2'] });

const prepared: PreparedCollective<Float32Array[]> = await prepareAllreduce([floats, floats], {
  name: 'bucket',
});
export const ran: Promise<Float32Array[]> = prepared.run({ timeoutMs: 1_000 });
export const ranSync: Float32Array[] = prepared.runSync();
export const single: Float32Array = (await prepareAllreduce(floats)).runSync();
await prepareAllreduce([floats, ints, matrix], { op: Sum });
prepared.release();
// @ts-expect-error the buffers are fixed when it is prepared
prepared.runSync([floats]);

export const nothing: undefined = (await barrier()) as undefined;
barrierSync({ timeoutMs: 10 });
export const lastToJoin: number = await join();
export const lastToJoinSync: number = joinSync();

export const config: { lr: number } = await broadcastObject({ lr: 0.1 }, 0);
export const configSync: { lr: number } = broadcastObjectSync({ lr: 0.1 }, 0, { name: 'config' });
export const names: string[] = await allgatherObject('worker');
export const namesSync: string[] = allgatherObjectSync('worker');

// Tensors.
export const memory: Tensor = alloc(16);
export const shaped: Tensor = alloc([2, 3], 'float64');
export const viaShape: readonly number[] = shaped.shape;
export const viaDtype: DType = shaped.dtype;
// @ts-expect-error no such dtype
alloc(16, 'float8');
// @ts-expect-error a tensor's shape is not to be written
shaped.shape = [3, 2];
export const like: TensorLike[] = [floats, matrix, memory];
export const everyArray: TypedArray[] = [floats, ints, bigs, new Uint8Array(1), new Float64Array(1)];
