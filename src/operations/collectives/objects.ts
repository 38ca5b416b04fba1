// broadcastObject and allgatherObject: values that structuredClone() takes, serialized.

import { deserialize, serialize } from 'node:v8';
import { HorovodError } from '../../errors.ts';
import type { AllgatherOperation } from '../../transport/transport.ts';
import type { Collective } from '../collective.ts';
import type { CollectiveOptions } from '../options.ts';
import { partsOf } from './allgather.ts';
import { rootIndexOf } from './operands.ts';

export const broadcastObjectCollective: Collective<
  [value: unknown, rootRank?: number | undefined],
  CollectiveOptions
> = {
  name: 'broadcastObject',
  arity: 2,
  plan({ args: [value, rootRank = 0], members, what }) {
    const isRoot = rootIndexOf(rootRank, members, what) === members.index;
    // Only the root knows the length, so this is an allgather to which the other ranks add nothing.
    const operation: AllgatherOperation = {
      kind: 'allgather',
      input: isRoot ? toBytes(value, what) : new Uint8Array(0),
    };
    return {
      kind: 'broadcastObject',
      operands: [],
      operations: [operation],
      root: rootRank,
      result: () => (isRoot ? value : deserialize(operation.output as Uint8Array)),
    };
  },
};

export const allgatherObjectCollective: Collective<[value: unknown], CollectiveOptions> = {
  name: 'allgatherObject',
  arity: 1,
  plan({ args: [value], what }) {
    const operation: AllgatherOperation = { kind: 'allgather', input: toBytes(value, what) };
    return {
      kind: 'allgatherObject',
      operands: [],
      operations: [operation],
      result: () => partsOf(operation).map((part) => deserialize(part)),
    };
  },
};

function toBytes(value: unknown, what: string): Uint8Array {
  try {
    return serialize(value);
  } catch (cause) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what} takes values that structuredClone() takes (no functions, no symbols): ${(cause as Error).message}.`,
      { cause },
    );
  }
}
