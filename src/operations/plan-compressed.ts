// The part of an allreduce that belongs to reducing compressors (tensor/compression/): what they can be asked of, their
// steps as a composite, and where the error feedback of a tensor is kept.

import { HorovodError } from '../errors.ts';
import type {
  CompressibleTensor,
  KernelGroup,
  ReducingCompressor,
} from '../tensor/compression/compressor.ts';
import { CompressionMemory } from '../tensor/compression/error-feedback.ts';
import { plainKernels } from '../tensor/compression/kernels.ts';
import type { TypedArray } from '../tensor/dtype.ts';
import { scaleInto } from '../tensor/reduce.ts';
import { Average, type ReduceOp, Sum } from '../tensor/reduce-op.ts';
import { emptyLike, likeOperand, type Operand, type TensorLike } from '../tensor/tensor.ts';
import type { TransportOperation } from '../transport/transport.ts';
import type { Composite } from './composite.ts';
import type { AllreduceOptions } from './options.ts';
import type { Members, Plan } from './plans.ts';
import type { ProcessSet } from './process-set.ts';
import type { OperationRunner } from './runner.ts';

/** Where what is left over is kept; made by withMemory(), or by adapters for optimizers. */
export interface MemoryOptions {
  readonly compressionMemory?: CompressionMemory | undefined;
  /** A key for each tensor, instead of the name of the call and its place in the group. */
  readonly compressionKeys?: readonly string[] | undefined;
}

const memories = new WeakMap<Members, CompressionMemory>();

/** The memory of a process set, for calls with a name. */
export function memoryOf(
  context: OperationRunner,
  set: ProcessSet | undefined,
  what: string,
): CompressionMemory {
  const members = context.membersOf(set, what);
  const known = memories.get(members);
  if (known !== undefined) return known;
  const made = newMemory(context);
  memories.set(members, made);
  return made;
}

export function newMemory(context: OperationRunner): CompressionMemory {
  return new CompressionMemory((text) => context.log.write('debug', text));
}

/** The options of an allreduce, with the memory of its process set where there may be need of one. */
export function withMemory(
  context: OperationRunner,
  options: AllreduceOptions & MemoryOptions,
  what: string,
): AllreduceOptions & MemoryOptions {
  const { compression, compressionMemory, name, processSet } = options;
  if (compression === undefined || name === undefined || compressionMemory !== undefined) return options;
  return { ...options, compressionMemory: memoryOf(context, processSet, what) };
}

/** The same for a prepared one: it runs again and again on the same tensors, so without a name it has a memory of its own. */
export function withOwnMemory(
  context: OperationRunner,
  options: AllreduceOptions & MemoryOptions,
  tensors: number,
  what: string,
): AllreduceOptions & MemoryOptions {
  const { compression, compressionMemory, name } = options;
  if (compression === undefined || name !== undefined || compressionMemory !== undefined)
    return withMemory(context, options, what);
  const compressionKeys = Array.from({ length: tensors }, (_, place) => `${place}`);
  return { ...options, compressionMemory: newMemory(context), compressionKeys };
}

export function planCompressed(
  xs: readonly TensorLike[],
  operands: readonly Operand[],
  isGrouped: boolean,
  options: AllreduceOptions & MemoryOptions,
  rules: {
    readonly op: ReduceOp;
    readonly prescale: number;
    readonly postscale: number;
    readonly compression: ReducingCompressor;
  },
  members: Members,
  what: string,
): Plan<TensorLike[]> {
  const { op, prescale, postscale, compression } = rules;
  if (op !== Sum && op !== Average) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: compression ${compression.name} is made for Sum and Average; it does not go with ${op.name}. ` +
        'Use Compression.none, .fp16 or .bf16 for that.',
    );
  }
  const { ranks, index, kernels = plainKernels } = members;
  const scales = { prescale, postscale: op === Average ? postscale / ranks.length : postscale };
  function* composite(): Composite<TensorLike[]> {
    const outputs = operands.map(({ data }) =>
      options.inPlace === true ? data : emptyLike(data, data.length),
    );
    const tensors = operands.map((operand, i) =>
      isLossy(operand) ? compressible(operand, keyOf(options, isGrouped, i)) : undefined,
    );
    const lossy = tensors.filter((tensor) => tensor !== undefined);
    const plain = operands.flatMap(({ data, dtype }, i): TransportOperation[] =>
      tensors[i] === undefined
        ? [
            {
              kind: 'allreduce',
              dtype,
              op: Sum,
              inputs: [data],
              outputs: [outputs[i] as TypedArray],
              ...scales,
            },
          ]
        : [],
    );
    const group: KernelGroup = { index, size: ranks.length, kernels };
    const steps = lossy.length === 0 ? [] : compression.reduce(lossy, group);
    let first = plain;
    let count = 0;
    for (const operations of steps) {
      yield [...first, ...operations];
      first = [];
      count++;
    }
    // Without any step the ranks would not have found out that they agree.
    if (count === 0) yield first.length === 0 ? [{ kind: 'barrier' }] : first;
    return operands.map((operand, i) => {
      const output = outputs[i] as TypedArray;
      const sum = tensors[i]?.data;
      if (sum !== undefined && output instanceof Float32Array) kernels.scale(output, sum, scales.postscale);
      else if (sum !== undefined) {
        scaleInto(output, Float64Array.from(sum), operand.dtype, scales.postscale);
      }
      return options.inPlace === true ? (xs[i] as TensorLike) : likeOperand(operand, output, operand.shape);
    });
  }
  const { compressionMemory } = options;
  const { errorFeedback = false, name } = compression;
  const compressible = ({ data: given, shape }: Operand, key: string | undefined): CompressibleTensor => {
    const data = new Float32Array(given.length);
    data.set(given as Float32Array);
    if (prescale !== 1) kernels.scale(data, data, prescale);
    const memory =
      key === undefined ? undefined : compressionMemory?.of(`${name}/${key}`, shape, errorFeedback);
    const residual = errorFeedback ? memory?.residual : undefined;
    if (residual !== undefined) kernels.add(data, residual);
    return { data, shape, residual, shared: memory?.shared ?? new Map() };
  };
  return {
    kind: 'allreduce',
    operands,
    operations: [],
    composite,
    isGrouped,
    op,
    prescale,
    postscale,
    detail: name,
    result: () => {
      throw new Error('a composite has no result of its own');
    },
  };
}

function isLossy({ dtype }: Operand): boolean {
  return dtype === 'float32' || dtype === 'float64';
}

/** Undefined: nothing is kept of a call without a name, as nobody could say which one comes next. */
function keyOf(
  { name, compressionKeys }: AllreduceOptions & MemoryOptions,
  isGrouped: boolean,
  place: number,
): string | undefined {
  if (compressionKeys !== undefined) return compressionKeys[place];
  return name === undefined || !isGrouped ? name : `${name}[${place}]`;
}
