// allreduce with a compressor that reduces by itself (tensor/compression/): its steps as a composite, and where the error
// feedback of a tensor is kept.

import type {
  CompressibleTensor,
  KernelGroup,
  ReducingCompressor,
} from '../../tensor/compression/compressor.ts';
import { CompressionMemory } from '../../tensor/compression/error-feedback.ts';
import { plainKernels } from '../../tensor/compression/kernels.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import { scaleInto } from '../../tensor/reduce.ts';
import { Average, Sum } from '../../tensor/reduce-op.ts';
import { emptyLike, likeOperand, type Operand, type TensorLike } from '../../tensor/tensor.ts';
import type { TransportOperation } from '../../transport/transport.ts';
import type { TensorCall } from '../collective.ts';
import { type AllreduceOptions, invalidArgument } from '../options.ts';
import type { Composite, Members, Plan } from '../plan.ts';
import type { ProcessSet } from '../process-set.ts';
import type { OperationRunner } from '../runner.ts';
import { type Reduction, scalesOf } from './reduction.ts';

/** Where error feedback is kept; set by withMemory(), or by adapters for optimizers. */
export interface MemoryOptions {
  readonly compressionMemory?: CompressionMemory | undefined;
  /** A key for each tensor, instead of the name of the call and the tensor's place in the group. */
  readonly compressionKeys?: readonly string[] | undefined;
}

const memories = new WeakMap<Members, CompressionMemory>();

export function newMemory(runner: OperationRunner): CompressionMemory {
  return new CompressionMemory((text) => runner.log.write('debug', text));
}

/** The options of an allreduce; a compressed one with a name gets the memory of its process set. */
export function withMemory(
  runner: OperationRunner,
  options: AllreduceOptions & MemoryOptions,
  what: string,
): AllreduceOptions & MemoryOptions {
  const { compression, compressionMemory, name, processSet } = options;
  if (compression === undefined || name === undefined || compressionMemory !== undefined) return options;
  return { ...options, compressionMemory: memoryOf(runner, processSet, what) };
}

/** As withMemory(), for a prepared allreduce. It always runs on the same tensors: without a name it gets a memory for itself. */
export function withOwnMemory(
  runner: OperationRunner,
  options: AllreduceOptions & MemoryOptions,
  tensors: number,
  what: string,
): AllreduceOptions & MemoryOptions {
  const { compression, compressionMemory, name } = options;
  if (compression === undefined || name !== undefined || compressionMemory !== undefined)
    return withMemory(runner, options, what);
  const compressionKeys = Array.from({ length: tensors }, (_, place) => `${place}`);
  return { ...options, compressionMemory: newMemory(runner), compressionKeys };
}

/** The memory of a process set, for calls with a name. */
export function memoryOf(
  runner: OperationRunner,
  set: ProcessSet | undefined,
  what: string,
): CompressionMemory {
  const members = runner.membersOf(set, what);
  const known = memories.get(members);
  if (known !== undefined) return known;
  const made = newMemory(runner);
  memories.set(members, made);
  return made;
}

export function planCompressed(
  { xs, isGrouped, options, members, what }: TensorCall<AllreduceOptions & MemoryOptions>,
  operands: readonly Operand[],
  reduction: Reduction<ReducingCompressor>,
): Plan<TensorLike[]> {
  const { op, prescale, postscale, compression } = reduction;
  if (op !== Sum && op !== Average) {
    throw invalidArgument(
      `${what}: compression ${compression.name} takes Sum and Average, not ${op.name}. ` +
        'Use Compression.none, .fp16 or .bf16 for that.',
    );
  }
  const { ranks, index, kernels = plainKernels } = members;
  const scales = scalesOf(reduction, ranks.length);
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
    // Without any step the ranks would not know that they agree.
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
      throw new Error('a composite returns its result itself');
    },
  };
}

function isLossy({ dtype }: Operand): boolean {
  return dtype === 'float32' || dtype === 'float64';
}

/** Undefined: nothing is kept for a call without a name, since no later call could be matched with it. */
function keyOf(
  { name, compressionKeys }: AllreduceOptions & MemoryOptions,
  isGrouped: boolean,
  place: number,
): string | undefined {
  if (compressionKeys !== undefined) return compressionKeys[place];
  return name === undefined || !isGrouped ? name : `${name}[${place}]`;
}
