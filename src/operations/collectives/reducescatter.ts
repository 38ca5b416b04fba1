// reducescatter: the tensors of all ranks are reduced, and each rank gets some rows of the result.

import { HorovodError } from '../../errors.ts';
import { isReducing } from '../../tensor/compression/compressor.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import { Average, Sum } from '../../tensor/reduce-op.ts';
import { elementsIn, emptyLike, likeOperand } from '../../tensor/tensor.ts';
import type { ReducescatterOperation } from '../../transport/transport.ts';
import { type TensorCollective, tensorCollective } from '../collective.ts';
import { invalidArgument, type ReduceOptions } from '../options.ts';
import { checkNotScalar, operandsOf } from './operands.ts';
import { checkReducible, compressed, detailOf, reductionOf, type Sent, scalesOf } from './reduction.ts';

export const reducescatterCollective: TensorCollective<ReduceOptions> = tensorCollective(
  'reducescatter',
  'groupedReducescatter',
  ({ xs, isGrouped, options, members, what }) => {
    const reduction = reductionOf(options, what);
    const { op, prescale, postscale, compression } = reduction;
    if (op !== Sum && op !== Average) {
      throw invalidArgument(`${what}: reducescatter takes Sum and Average, not ${op.name}.`);
    }
    if (isReducing(compression)) {
      throw new HorovodError(
        'ERR_HVD_UNSUPPORTED',
        `${what}: compression ${compression.name} is for allreduce only; reducescatter takes .none, .fp16 and .bf16.`,
      );
    }
    const operands = operandsOf(xs, what);
    const size = members.ranks.length;
    const sent = operands.map((operand) => {
      checkNotScalar(operand, what);
      return compressed(operand, { ...reduction, compression });
    });
    const operations = sent.map(({ tensor: { data, shape, dtype }, wire }): ReducescatterOperation => {
      checkReducible(dtype, reduction, what);
      const rows = shape[0] as number;
      const perRow = elementsIn(shape.slice(1));
      // The first (rows mod size) ranks get one row more.
      const counts = members.ranks.map(
        (_, i) => (Math.floor(rows / size) + (i < rows % size ? 1 : 0)) * perRow,
      );
      const output = emptyLike(data, counts[members.index] as number);
      const scales = scalesOf(reduction, size);
      return { kind: 'reducescatter', dtype, wire, op: Sum, input: data, output, counts, ...scales };
    });
    return {
      kind: 'reducescatter',
      operands: sent.map(({ tensor }) => tensor),
      operations,
      isGrouped,
      op,
      prescale,
      postscale,
      detail: detailOf(reduction),
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
  },
);
