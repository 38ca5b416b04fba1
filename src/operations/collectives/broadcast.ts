// broadcast: every rank gets the root's tensor.

import { bytesOf, emptyLike, likeOperand, operandOf, type TensorLike } from '../../tensor/tensor.ts';
import type { Collective } from '../collective.ts';
import type { BroadcastOptions } from '../options.ts';
import { rootIndexOf } from './operands.ts';

export const broadcastCollective: Collective<[x: TensorLike, rootRank: number], BroadcastOptions> = {
  name: 'broadcast',
  arity: 2,
  plan({ args: [x, rootRank], options, members, what }) {
    const operand = operandOf(x, what);
    const inPlace = options.inPlace === true;
    const root = rootIndexOf(rootRank, members, what);
    const output = inPlace ? operand.data : emptyLike(operand.data, operand.data.length);
    return {
      kind: 'broadcast',
      operands: [operand],
      operations: [{ kind: 'broadcast', root, input: bytesOf(operand.data), output: bytesOf(output) }],
      root: rootRank,
      result: () => (inPlace ? x : likeOperand(operand, output, operand.shape)),
    };
  },
};
