// alltoall: every rank sends some rows to each rank.

import { bytesOf, describe, likeOperand, operandOf, type TensorLike, viewLike } from '../../tensor/tensor.ts';
import type { AlltoallOperation } from '../../transport/transport.ts';
import type { Collective } from '../collective.ts';
import { type AlltoallOptions, type AlltoallResult, invalidArgument } from '../options.ts';
import { bytesPerRow, checkNotScalar, shapeOfRows } from './operands.ts';

export const alltoallCollective: Collective<[x: TensorLike], AlltoallOptions, AlltoallResult<TensorLike>> = {
  name: 'alltoall',
  arity: 1,
  plan({ args: [x], options, members, what }) {
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
        const receivedBytes = operation.receivedBytes as number[];
        return {
          output: likeOperand(
            operand,
            viewLike(operand.data, output),
            shapeOfRows(operand, output.byteLength),
          ),
          receivedSplits: Int32Array.from(receivedBytes, (bytes) => (rowBytes === 0 ? 0 : bytes / rowBytes)),
        };
      },
    };
  },
};

function checkSplits(splits: AlltoallOptions['splits'], rows: number, size: number, what: string): number[] {
  if (splits === undefined) {
    if (rows % size === 0) return Array.from({ length: size }, () => rows / size);
    throw invalidArgument(
      `${what}: without splits, the first dimension (${rows}) must be a multiple of the number of ranks (${size}).`,
    );
  }
  if (!Array.isArray(splits) && !(splits instanceof Int32Array)) {
    throw invalidArgument(
      `${what}: splits must be a list of integers or an Int32Array, not ${describe(splits)}.`,
    );
  }
  const list = Array.from(splits);
  if (list.length !== size) {
    throw invalidArgument(`${what}: splits has ${list.length} entries, the process set has ${size} ranks.`);
  }
  const wrong = list.find((entry) => !Number.isSafeInteger(entry) || entry < 0);
  if (wrong !== undefined) {
    throw invalidArgument(`${what}: splits must be integers from 0, not ${describe(wrong)}.`);
  }
  const total = list.reduce((sum, entry) => sum + entry, 0);
  if (total > rows) {
    throw invalidArgument(`${what}: the splits add up to ${total}, more than the first dimension, ${rows}.`);
  }
  return list;
}
