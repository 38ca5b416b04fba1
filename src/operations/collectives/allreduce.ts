// allreduce: every rank gets the tensors of all ranks, reduced to one. Adasum and compressors that reduce by themselves
// (allreduce-compressed.ts) need several requests.

import type { Description } from '../../engine/description.ts';
import { Compression } from '../../tensor/compression/compression.ts';
import { type AnyCompressor, isReducing } from '../../tensor/compression/compressor.ts';
import { bf16, fp16 } from '../../tensor/compression/half.ts';
import { type DType, dtypes, type TypedArray, type TypedArrayConstructor } from '../../tensor/dtype.ts';
import { Adasum, Average, Max, Min, Product, Sum } from '../../tensor/reduce-op.ts';
import { elementsIn, emptyLike, likeOperand, type Tensor, type TensorLike } from '../../tensor/tensor.ts';
import type { AllreduceOperation, TransportOperation } from '../../transport/transport.ts';
import { adasum } from '../adasum/adasum.ts';
import { checkAdasum } from '../adasum/check-adasum.ts';
import { type TensorCall, type TensorCollective, tensorCollective } from '../collective.ts';
import { type AllreduceOptions, invalidArgument } from '../options.ts';
import type { Composite, Plan } from '../plan.ts';
import { type MemoryOptions, planCompressed, withMemory } from './allreduce-compressed.ts';
import { operandsOf } from './operands.ts';
import { checkReducible, compressed, detailOf, reductionOf, type Sent, scalesOf } from './reduction.ts';

export const allreduceCollective: TensorCollective<AllreduceOptions> = tensorCollective(
  'allreduce',
  'groupedAllreduce',
  (call, runner) => planAllreduce({ ...call, options: withMemory(runner, call.options, call.what) }),
);

/** Their operations work on the user's arrays. */
const builtIn: ReadonlySet<AnyCompressor> = new Set([Compression.none, fp16, bf16]);

export function planAllreduce(call: TensorCall<AllreduceOptions & MemoryOptions>): Plan<TensorLike[]> {
  const { xs, isGrouped, options, members, what } = call;
  const reduction = reductionOf(options, what);
  const { op, prescale, postscale, compression } = reduction;
  const operands = operandsOf(xs, what);
  const inPlace = options.inPlace === true;
  if (inPlace && new Set(operands.map(({ data }) => data)).size < operands.length) {
    throw invalidArgument(`${what}: the same array is in the group twice and inPlace.`);
  }
  if (isReducing(compression)) {
    for (const { dtype } of operands) checkReducible(dtype, reduction, what);
    return planCompressed(call, operands, { ...reduction, compression });
  }
  const sent = operands.map((operand) => compressed(operand, { ...reduction, compression }));
  const outputs = sent.map(({ tensor, isSame }) =>
    inPlace || !isSame ? tensor.data : emptyLike(tensor.data, tensor.data.length),
  );
  const result = () =>
    operands.map((operand, i) => {
      const { tensor, context } = sent[i] as Sent;
      const reduced = { ...tensor, data: outputs[i] as TypedArray };
      const { data } = compression.decompress(reduced, context);
      if (!inPlace) return likeOperand(operand, data, operand.shape);
      if (data !== operand.data) (operand.data as Float32Array).set(data as Float32Array);
      return xs[i] as TensorLike;
    });
  const operations = new Map<DType, AllreduceOperation & { inputs: TypedArray[]; outputs: TypedArray[] }>();
  sent.forEach(({ tensor: { data, dtype }, wire }, i) => {
    checkReducible(dtype, reduction, what);
    let operation = operations.get(dtype);
    if (operation === undefined) {
      operation = {
        kind: 'allreduce',
        dtype,
        wire,
        // Adasum of one rank is its tensor.
        op: op === Average || op === Adasum ? Sum : op,
        inputs: [],
        outputs: [],
        ...scalesOf(reduction, members.ranks.length),
      };
      operations.set(dtype, operation);
    }
    operation.inputs.push(data);
    operation.outputs.push(outputs[i] as TypedArray);
  });
  if (op === Adasum) checkAdasum([...operations.keys()], members.ranks.length, what);
  const isComposite = op === Adasum && members.ranks.length > 1;
  function* composite(): Composite<TensorLike[]> {
    const tensors = sent.map(({ tensor: { data, dtype } }, i) => ({
      dtype,
      input: data,
      output: outputs[i] as TypedArray,
    }));
    const { ranks, index, hostOf } = members;
    yield* adasum({ tensors, prescale, postscale, index, size: ranks.length, hostOf });
    return result();
  }
  return {
    kind: 'allreduce',
    operands: sent.map(({ tensor }) => tensor),
    operations: isComposite ? [] : [...operations.values()],
    composite: isComposite ? composite : undefined,
    isGrouped,
    op,
    prescale,
    postscale,
    detail: detailOf(reduction),
    isRepeatable: builtIn.has(compression) && sent.every(({ isSame }) => isSame),
    result,
  };
}

/** The part that a joined rank takes in the others' allreduce: zeros of the same shape. */
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
  // Values that travel as halves do so here, too.
  const compression = [fp16, bf16].find(({ name }) => name === description.detail);
  const options = { op, prescaleFactor, postscaleFactor, compression, inPlace: true };
  return [...planAllreduce({ xs, isGrouped, options, members, what: 'join' }).operations];
}
