// allgather: every rank gets the tensors of all ranks, concatenated along the first dimension.

import { bytesOf, likeOperand, viewLike } from '../../tensor/tensor.ts';
import type { AllgatherOperation } from '../../transport/transport.ts';
import { type TensorCollective, tensorCollective } from '../collective.ts';
import type { CollectiveOptions } from '../options.ts';
import { checkNotScalar, operandsOf, shapeOfRows } from './operands.ts';

export const allgatherCollective: TensorCollective<CollectiveOptions> = tensorCollective(
  'allgather',
  'groupedAllgather',
  ({ xs, isGrouped, what }) => {
    const operands = operandsOf(xs, what);
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
          const shape = shapeOfRows(operand, output.byteLength);
          return likeOperand(operand, viewLike(operand.data, output), shape);
        }),
    };
  },
);

/** The bytes that each member has given. */
export function partsOf({ output = new Uint8Array(0), byteCounts = [] }: AllgatherOperation): Uint8Array[] {
  let start = 0;
  return byteCounts.map((bytes) => {
    start += bytes;
    return output.subarray(start - bytes, start);
  });
}

/** The texts that the members of an allgather of UTF-8 have given. */
export function textsOf(operation: AllgatherOperation): string[] {
  return partsOf(operation).map((part) => Buffer.from(part).toString('utf8'));
}
