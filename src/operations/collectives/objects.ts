// broadcastObject and allgatherObject: values that structuredClone() takes, serialized.

import { HorovodError } from '../../errors.ts';
import type { AllgatherOperation } from '../../transport/transport.ts';
import type { Collective } from '../collective.ts';
import type { BytesCall } from '../compiled/compiled-calls.ts';
import { ways } from '../compiled/ways.ts';
import type { CollectiveOptions } from '../options.ts';
import type { OperationRunner } from '../runner.ts';
import { partsOf } from './allgather.ts';
import { bytesOfObject, objectOfBytes } from './object-bytes.ts';
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
      result: () => (isRoot ? value : objectOfBytes(operation.output as Uint8Array)),
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
      result: () => partsOf(operation).map((part) => objectOfBytes(part)),
    };
  },
};

/** broadcastObject() by the short way. */
export function broadcastObjectCall<T>(
  { world }: OperationRunner,
  value: T,
  rootRank: number,
  options: CollectiveOptions,
): BytesCall<T> {
  const isRoot = rootRank === world.rank;
  return {
    way: ways.broadcastObject,
    collective: broadcastObjectCollective,
    args: [value, rootRank],
    root: rootRank,
    options,
    bytes: () => (isRoot ? bytesIfPossible(value) : new Uint8Array(0)),
    result: (bytes) => (isRoot ? value : (objectOfBytes(bytes) as T)),
  };
}

/** allgatherObject() by the short way. */
export function allgatherObjectCall<T>(value: T, options: CollectiveOptions): BytesCall<T[]> {
  return {
    way: ways.allgatherObject,
    collective: allgatherObjectCollective,
    args: [value],
    root: undefined,
    options,
    bytes: () => bytesIfPossible(value),
    result: (output, byteCounts) => {
      const operation = {
        kind: 'allgather',
        input: output,
        output,
        byteCounts: Array.from(byteCounts),
      } as const;
      return partsOf(operation).map((part) => objectOfBytes(part) as T);
    },
  };
}

function bytesIfPossible(value: unknown): Uint8Array | undefined {
  try {
    return bytesOfObject(value);
  } catch {
    return undefined;
  }
}

function toBytes(value: unknown, what: string): Uint8Array {
  try {
    return bytesOfObject(value);
  } catch (cause) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what} takes values that structuredClone() takes (no functions, no symbols): ${(cause as Error).message}.`,
      { cause },
    );
  }
}
