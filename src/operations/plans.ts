// How each collective becomes a request: checks at the door, what the ranks must agree on, the transport's
// operations, and how the result is made when they are done. Pure: nothing is submitted here.

import { deserialize, serialize } from 'node:v8';
import type { Description } from '../engine/request.ts';
import { HorovodError } from '../errors.ts';
import { Compression, type Compressor, compressorOf } from '../tensor/compression/compression.ts';
import { type AnyCompressor, isReducing } from '../tensor/compression/compressor.ts';
import { bf16, fp16, wireOf } from '../tensor/compression/half.ts';
import type { CompressionKernels } from '../tensor/compression/kernels.ts';
import { type DType, dtypes, type TypedArray, type TypedArrayConstructor } from '../tensor/dtype.ts';
import type { HalfDType } from '../tensor/half-float.ts';
import { Adasum, Average, Max, Min, Product, type ReduceOp, Sum } from '../tensor/reduce-op.ts';
import {
  bytesOf,
  describe,
  elementsIn,
  emptyLike,
  likeOperand,
  type Operand,
  operandOf,
  type Tensor,
  type TensorLike,
  viewLike,
} from '../tensor/tensor.ts';
import type {
  AllgatherOperation,
  AllreduceOperation,
  AlltoallOperation,
  ReducescatterOperation,
  TransportOperation,
} from '../transport/transport.ts';
import type { Composite } from './composite.ts';
import {
  type AllreduceOptions,
  type AlltoallOptions,
  type AlltoallResult,
  checkFactor,
  type ReduceOptions,
} from './options.ts';
import { adasumComposite, checkAdasum } from './plan-adasum.ts';
import { type MemoryOptions, planCompressed } from './plan-compressed.ts';

/** A request without its key. */
export interface Plan<R> {
  readonly kind: Description['kind'];
  readonly operations: readonly TransportOperation[];
  readonly operands: readonly Pick<Operand, 'shape' | 'dtype'>[];
  readonly isGrouped?: boolean;
  readonly op?: ReduceOp;
  readonly prescale?: number;
  readonly postscale?: number;
  readonly root?: number;
  readonly detail?: string;
  /** Of a collective that is made of several: then there are no `operations`, and result() is not called. */
  readonly composite?: (() => Composite<R>) | undefined;
  /** The operations work on the users' own arrays: they can run again and again. */
  readonly isRepeatable?: boolean;
  /** Told the key of its request: the name, or the number of one without. */
  readonly onKey?: (key: string) => void;
  /** Called once, when the operations are done. */
  result(): R;
}

/** The process set a plan is for. */
export interface Members {
  readonly ranks: readonly number[];
  readonly index: number;
  /** Number of each member's host, where it is known. */
  readonly hostOf?: readonly number[] | undefined;
  /** The transport's own kernels of lossy compression, if it has any. */
  readonly kernels?: CompressionKernels | undefined;
}

export function planAllreduce(
  xs: readonly TensorLike[],
  isGrouped: boolean,
  options: AllreduceOptions & MemoryOptions,
  members: Members,
  what: string,
): Plan<TensorLike[]> {
  const { op, prescale, postscale, compression } = checkReduction(options, what);
  const operands = checkList(xs, what).map((x) => operandOf(x, what));
  const inPlace = options.inPlace === true;
  if (inPlace && new Set(operands.map(({ data }) => data)).size < operands.length) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: the same array is in the group twice and inPlace.`,
    );
  }
  if (isReducing(compression)) {
    for (const { dtype } of operands) checkReducible(dtype, op, prescale, postscale, what);
    const rules = { op, prescale, postscale, compression };
    return planCompressed(xs, operands, isGrouped, options, rules, members, what);
  }
  const sent = operands.map((operand) => compressed(operand, compression, op));
  const outputs = sent.map(({ tensor, isSame }) =>
    inPlace || !isSame ? tensor.data : emptyLike(tensor.data, tensor.data.length),
  );
  const isAdasum = op === Adasum;
  if (isAdasum) {
    checkAdasum(
      sent.map(({ tensor }) => tensor.dtype),
      members,
      what,
    );
  }
  const isComposite = isAdasum && members.ranks.length > 1;
  const operations = new Map<DType, AllreduceOperation & { inputs: TypedArray[]; outputs: TypedArray[] }>();
  sent.forEach(({ tensor: { data, dtype }, wire }, i) => {
    checkReducible(dtype, op, prescale, postscale, what);
    let operation = operations.get(dtype);
    if (operation === undefined) {
      const scales = { prescale, postscale: op === Average ? postscale / members.ranks.length : postscale };
      operation = {
        kind: 'allreduce',
        dtype,
        wire,
        // Adasum of one rank is its tensor.
        op: op === Average || isAdasum ? Sum : op,
        inputs: [],
        outputs: [],
        ...scales,
      };
      operations.set(dtype, operation);
    }
    operation.inputs.push(data);
    operation.outputs.push(outputs[i] as TypedArray);
  });
  const result = () =>
    operands.map((operand, i) => {
      const { tensor, context } = sent[i] as Sent;
      const reduced = { ...tensor, data: outputs[i] as TypedArray };
      const { data } = compression.decompress(reduced, context);
      if (!inPlace) return likeOperand(operand, data, operand.shape);
      if (data !== operand.data) (operand.data as Float32Array).set(data as Float32Array);
      return xs[i] as TensorLike;
    });
  const adasumTensors = () =>
    sent.map(({ tensor: { data, dtype } }, i) => ({ dtype, input: data, output: outputs[i] as TypedArray }));
  return {
    kind: 'allreduce',
    operands: sent.map(({ tensor }) => tensor),
    operations: isComposite ? [] : [...operations.values()],
    composite: isComposite
      ? () => adasumComposite(adasumTensors(), { prescale, postscale }, members, result)
      : undefined,
    isGrouped,
    op,
    prescale,
    postscale,
    detail: compression === Compression.none ? '' : compression.name,
    isRepeatable: isBuiltIn(compression) && sent.every(({ isSame }) => isSame),
    result,
  };
}

export function planAllgather(
  xs: readonly TensorLike[],
  isGrouped: boolean,
  what: string,
): Plan<TensorLike[]> {
  const operands = checkList(xs, what).map((x) => operandOf(x, what));
  for (const operand of operands) checkNotScalar(operand, what);
  const operations = operands.map(
    ({ data }): AllgatherOperation => ({ kind: 'allgather', input: bytesOf(data) }),
  );
  return {
    kind: 'allgather',
    operands,
    operations,
    isGrouped,
    result: () =>
      operands.map((operand, i) => {
        const output = operations[i]?.output as Uint8Array;
        const rows = rowsIn(operand, output.byteLength);
        return likeOperand(operand, viewLike(operand.data, output), [rows, ...operand.shape.slice(1)]);
      }),
  };
}

export function planBroadcast(
  x: TensorLike,
  rootRank: number,
  inPlace: boolean,
  members: Members,
  what: string,
): Plan<TensorLike> {
  const operand = operandOf(x, what);
  const root = checkRoot(rootRank, members, what);
  const output = inPlace ? operand.data : emptyLike(operand.data, operand.data.length);
  return {
    kind: 'broadcast',
    operands: [operand],
    operations: [{ kind: 'broadcast', root, input: bytesOf(operand.data), output: bytesOf(output) }],
    root: rootRank,
    result: () => (inPlace ? x : likeOperand(operand, output, operand.shape)),
  };
}

export function planAlltoall(
  x: TensorLike,
  options: AlltoallOptions,
  members: Members,
  what: string,
): Plan<AlltoallResult<TensorLike>> {
  const operand = operandOf(x, what);
  checkNotScalar(operand, what);
  const splits = checkSplits(options.splits, operand.shape[0] as number, members.ranks.length, what);
  const rowBytes = bytesPerRow(operand);
  const sendBytes = splits.map((rows) => rows * rowBytes);
  const total = sendBytes.reduce((sum, bytes) => sum + bytes, 0);
  const operation: AlltoallOperation = {
    kind: 'alltoall',
    input: bytesOf(operand.data).subarray(0, total),
    sendBytes,
  };
  return {
    kind: 'alltoall',
    operands: [operand],
    operations: [operation],
    result: () => {
      const output = operation.output as Uint8Array;
      const received = (operation.receivedBytes as number[]).map((bytes) =>
        rowBytes === 0 ? 0 : bytes / rowBytes,
      );
      return {
        output: likeOperand(operand, viewLike(operand.data, output), [
          rowsIn(operand, output.byteLength),
          ...operand.shape.slice(1),
        ]),
        receivedSplits: Int32Array.from(received),
      };
    },
  };
}

export function planReducescatter(
  xs: readonly TensorLike[],
  isGrouped: boolean,
  options: ReduceOptions,
  members: Members,
  what: string,
): Plan<TensorLike[]> {
  const { op, prescale, postscale, compression } = checkReduction(options, what);
  if (op !== Sum && op !== Average) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: reducescatter takes Sum and Average, not ${op.name}.`,
    );
  }
  if (isReducing(compression)) {
    throw new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `${what}: compression ${compression.name} exists for allreduce only; for reducescatter there are .none, .fp16 and .bf16.`,
    );
  }
  const operands = checkList(xs, what).map((x) => operandOf(x, what));
  const size = members.ranks.length;
  const sent = operands.map((operand) => {
    checkNotScalar(operand, what);
    return compressed(operand, compression, op);
  });
  const operations = sent.map(({ tensor, wire }): ReducescatterOperation => {
    checkReducible(tensor.dtype, op, prescale, postscale, what);
    const rows = tensor.shape[0] as number;
    const perRow = elementsIn(tensor.shape.slice(1));
    // The first (rows mod size) ranks get one row more.
    const counts = members.ranks.map(
      (_, i) => (Math.floor(rows / size) + (i < rows % size ? 1 : 0)) * perRow,
    );
    const scales = { prescale, postscale: op === Average ? postscale / size : postscale };
    const output = emptyLike(tensor.data, counts[members.index] as number);
    return {
      kind: 'reducescatter',
      dtype: tensor.dtype,
      wire,
      op: Sum,
      input: tensor.data,
      output,
      counts,
      ...scales,
    };
  });
  return {
    kind: 'reducescatter',
    operands: sent.map(({ tensor }) => tensor),
    operations,
    isGrouped,
    op,
    prescale,
    postscale,
    detail: compression === Compression.none ? '' : compression.name,
    result: () =>
      operands.map((operand, i) => {
        const { tensor, context } = sent[i] as Sent;
        const output = operations[i]?.output as TypedArray;
        const perRow = elementsIn(operand.shape.slice(1));
        const shape = [perRow === 0 ? 0 : output.length / perRow, ...operand.shape.slice(1)];
        const { data } = compression.decompress({ data: output, shape, dtype: tensor.dtype }, context);
        return likeOperand(operand, data, shape);
      }),
  };
}

export function planBarrier(): Plan<void> {
  return { kind: 'barrier', operands: [], operations: [{ kind: 'barrier' }], result: () => undefined };
}

/** Structured-clone values; functions and the like are refused. */
export function planBroadcastObject<T>(value: T, rootRank: number, members: Members, what: string): Plan<T> {
  const root = checkRoot(rootRank, members, what);
  const isRoot = root === members.index;
  // Only the root knows how long it is: an allgather in which the others have nothing to say.
  const operation: AllgatherOperation = {
    kind: 'allgather',
    input: isRoot ? toBytes(value, what) : new Uint8Array(0),
  };
  return {
    kind: 'broadcastObject',
    operands: [],
    operations: [operation],
    root: rootRank,
    result: () => (isRoot ? value : (deserialize(operation.output as Uint8Array) as T)),
  };
}

export function planAllgatherObject<T>(value: T, what: string): Plan<T[]> {
  const operation: AllgatherOperation = { kind: 'allgather', input: toBytes(value, what) };
  return {
    kind: 'allgatherObject',
    operands: [],
    operations: [operation],
    result: () => {
      let start = 0;
      return (operation.byteCounts as number[]).map((bytes) => {
        const part = (operation.output as Uint8Array).subarray(start, start + bytes);
        start += bytes;
        return deserialize(part) as T;
      });
    },
  };
}

/** The part a rank that has joined takes in others' allreduce: zeros of the same shape. */
export function zeroOperations(description: Description, size: number): TransportOperation[] {
  if (description.kind !== 'allreduce') return [{ kind: 'barrier' }];
  const op = [Average, Sum, Min, Max, Product].find(({ name }) => name === description.op) ?? Sum;
  const xs = description.shapes.map((shape, i): Tensor => {
    const dtype = description.dtypes[i] as DType;
    const data = new (dtypes[dtype].arrays[0] as TypedArrayConstructor)(elementsIn(shape));
    return { data, shape, dtype };
  });
  const { prescale: prescaleFactor, postscale: postscaleFactor, isGrouped } = description;
  const members = { ranks: Array.from({ length: size }, (_, i) => i), index: 0 };
  // What travels as halves does so here too.
  const compression = [fp16, bf16].find(({ name }) => name === description.detail);
  const options = { op, prescaleFactor, postscaleFactor, compression, inPlace: true };
  return [...planAllreduce(xs, isGrouped, options, members, 'join').operations];
}

interface Sent {
  readonly tensor: Tensor;
  readonly context: unknown;
  readonly isSame: boolean;
  /** The transport compresses it itself. */
  readonly wire: HalfDType | undefined;
}

function compressed({ data, shape, dtype }: Operand, compression: Compressor, op: ReduceOp): Sent {
  const wire = op === Adasum ? undefined : wireOf(compression, dtype);
  if (wire !== undefined) return { tensor: { data, shape, dtype }, context: undefined, isSame: true, wire };
  const { tensor, context } = compression.compress({ data, shape, dtype });
  return { tensor, context, isSame: tensor.data === data, wire };
}

function isBuiltIn(compression: AnyCompressor): boolean {
  return compression === Compression.none || compression === fp16 || compression === bf16;
}

function checkReduction(options: ReduceOptions, what: string) {
  const { op = Average } = options;
  const compression = compressorOf(options.compression, what);
  if (![Average, Sum, Min, Max, Product, Adasum].includes(op)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: op is Average, Sum, Min, Max, Product or Adasum, not ${describe(op)}.`,
    );
  }
  const prescale = checkFactor(options.prescaleFactor, 'prescaleFactor', what);
  const postscale = checkFactor(options.postscaleFactor, 'postscaleFactor', what);
  return { op, prescale, postscale, compression };
}

function checkReducible(dtype: DType, op: ReduceOp, prescale: number, postscale: number, what: string): void {
  if (dtype !== 'bool' || (op !== Average && prescale === 1 && postscale === 1)) return;
  throw new HorovodError(
    'ERR_HVD_INVALID_DTYPE',
    `${what}: bool tensors are neither averaged nor scaled. Sum and Max are 'or', Min and Product are 'and'.`,
  );
}

function checkList(xs: readonly TensorLike[], what: string): readonly TensorLike[] {
  if (Array.isArray(xs)) return xs;
  throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${what} takes a list of tensors, not ${describe(xs)}.`);
}

function checkNotScalar({ shape }: Operand, what: string): void {
  if (shape.length > 0) return;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `${what} takes a tensor with a first dimension, not a scalar.`,
  );
}

function checkRoot(rootRank: number, { ranks }: Members, what: string): number {
  const root = ranks.indexOf(rootRank);
  if (root >= 0) return root;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `${what}: root rank ${describe(rootRank)} is not one of the ranks of the process set, ${ranks.join(', ')}.`,
  );
}

function checkSplits(splits: AlltoallOptions['splits'], rows: number, size: number, what: string): number[] {
  const refuse = (why: string): never => {
    throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${what}: ${why}`);
  };
  if (splits === undefined) {
    if (rows % size !== 0) {
      refuse(
        `without splits the first dimension (${rows}) must be a multiple of the number of ranks (${size}).`,
      );
    }
    return Array.from({ length: size }, () => rows / size);
  }
  if (!Array.isArray(splits) && !(splits instanceof Int32Array)) {
    refuse(`splits are a list of whole numbers or an Int32Array, not ${describe(splits)}.`);
  }
  const list = Array.from(splits);
  if (list.length !== size) refuse(`splits has ${list.length} entries, the process set has ${size} ranks.`);
  const wrong = list.find((entry) => !Number.isSafeInteger(entry) || entry < 0);
  if (wrong !== undefined) refuse(`splits are whole numbers from 0, not ${describe(wrong)}.`);
  const total = list.reduce((sum, entry) => sum + entry, 0);
  if (total > rows) refuse(`the splits add up to ${total}, more than the first dimension, ${rows}.`);
  return list;
}

function bytesPerRow({ shape, dtype }: Operand): number {
  return elementsIn(shape.slice(1)) * dtypes[dtype].bytes;
}

function rowsIn(operand: Operand, bytes: number): number {
  const rowBytes = bytesPerRow(operand);
  return rowBytes === 0 ? 0 : bytes / rowBytes;
}

function toBytes(value: unknown, what: string): Uint8Array {
  try {
    return serialize(value);
  } catch (cause) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what} takes what structuredClone() takes (no functions, no symbols): ${(cause as Error).message}.`,
      { cause },
    );
  }
}

/** What the members of an allgather of texts have given. */
export function textsOf({ output, byteCounts = [] }: AllgatherOperation): string[] {
  const bytes = Buffer.from(output ?? []);
  let start = 0;
  return byteCounts.map((count) => {
    start += count;
    return bytes.toString('utf8', start - count, start);
  });
}
