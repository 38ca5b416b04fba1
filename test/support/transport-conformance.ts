// The suite that every transport passes: `describeTransport('shm', makeWorld)`. It uses only submit(), so that all ranks of
// a transport can live in one process. Results are compared byte by byte with those of runTogether() for the same
// operations. Transports for several hosts combine members in another order (`order: 'any'`): their sums and products of floats may
// differ by rounding, but never between members.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { dtypeNames, type TypedArray } from '../../src/tensor/dtype.ts';
import type { HalfDType } from '../../src/tensor/half-float.ts';
import { Max, Min, Product, type ReduceOp, Sum } from '../../src/tensor/reduce-op.ts';
import { runTogether } from '../../src/transport/group/run-together.ts';
import type { TransportGroup, TransportOperation } from '../../src/transport/transport.ts';
import { bytes, bytesOf, isClose, isReduction, values, zeros } from './transport-data.ts';
import { describeRounds } from './transport-rounds.ts';
import { type MakeWorld, openGroups, runOnAll, withWorld } from './transport-world.ts';

export { type MakeWorld, openGroups, type TransportWorld } from './transport-world.ts';

const sizes = [0, 1, 3, 255, 1000, 65535, 65536, 65537, 1 << 20];
const deadline = { timeout: 120_000 };

export interface ConformanceOptions {
  /** In which order the transport combines members. */
  readonly order?: 'index' | 'any';
  /** Sizes of groups to try. */
  readonly members?: readonly number[];
  /** Default: all. A variant of a transport repeats only the tests that run different code in it. */
  readonly parts?: readonly ('operations' | 'reductions' | 'rounds')[];
}

export function describeTransport(
  name: string,
  makeWorld: MakeWorld,
  options: ConformanceOptions = {},
): void {
  const { order = 'index', members: groupSizes = [1, 2, 3, 4] } = options;
  const { parts = ['operations', 'reductions', 'rounds'] } = options;
  const compare = order === 'index' ? compareBits : compareClosely;
  describe(`the ${name} transport`, () => {
    if (parts.includes('operations')) {
      for (const members of groupSizes) describeOperations(members, makeWorld, compare);
    }
    if (parts.includes('reductions')) {
      describeReductions(makeWorld, compare);
      describeWires(makeWorld, compare);
    }
    if (parts.includes('rounds')) describeRounds(makeWorld);
  });
}

function describeOperations(members: number, makeWorld: MakeWorld, compare: Compare): void {
  const indices = Array.from({ length: members }, (_, index) => index);
  const withGroups = (body: (groups: TransportGroup[]) => Promise<void>) => () =>
    withWorld(makeWorld, members, body);

  describe(`with ${members} member${members === 1 ? '' : 's'}`, () => {
    test(
      'allreduces every size, in place and into another array',
      deadline,
      withGroups(async (groups) => {
        for (const size of sizes) {
          for (const isInPlace of [false, true]) {
            await compare(groups, (index) => {
              const input = values('float32', size, index);
              return allreduce([input], [isInPlace ? input : zeros('float32', size)]);
            });
          }
        }
      }),
    );

    test(
      'allreduces a list of many buffers, some of them empty',
      deadline,
      withGroups(async (groups) => {
        const lengths = Array.from({ length: 150 }, (_, i) => (i % 7 === 0 ? 0 : i % 40 === 1 ? 30_011 : i));
        await compare(groups, (index) => {
          const inputs = lengths.map((length, i) => values('float32', length, 10 * i + index));
          return allreduce(
            inputs,
            inputs.map((input, i) => (i % 2 === 0 ? input : zeros('float32', input.length))),
          );
        });
        await compare(groups, () => allreduce([], []));
      }),
    );

    test(
      'reduce-scatters equal and unequal parts of every size',
      deadline,
      withGroups(async (groups) => {
        for (const size of sizes) {
          const equal = indices.map((i) => Math.floor(size / members) + (i < size % members ? 1 : 0));
          const unequal = indices.map((i) => (i === members - 1 ? size : 0));
          for (const counts of [equal, unequal]) {
            await compare(groups, (index) => ({
              kind: 'reducescatter',
              dtype: 'float32',
              op: Sum,
              input: values('float32', size, index),
              output: zeros('float32', counts[index] as number),
              counts,
              prescale: 1,
              postscale: 1,
            }));
          }
        }
      }),
    );

    test(
      'allgathers every size, equal and unequal, some of them empty',
      deadline,
      withGroups(async (groups) => {
        for (const size of sizes) {
          await compare(groups, (index) => ({ kind: 'allgather', input: bytes(size, index) }));
          await compare(groups, (index) => ({
            kind: 'allgather',
            input: bytes(index % 2 === 0 ? Math.floor(size / (index + 1)) : 0, index),
          }));
        }
      }),
    );

    test(
      'broadcasts every size from every root, in place and into another array',
      deadline,
      withGroups(async (groups) => {
        for (const [i, size] of sizes.entries()) {
          for (const isInPlace of [false, true]) {
            const root = i % members;
            await compare(groups, (index) => {
              const input = bytes(size, index);
              return { kind: 'broadcast', root, input, output: isInPlace ? input : new Uint8Array(size) };
            });
          }
        }
      }),
    );

    test(
      'alltoall of every size, with unequal and empty parts',
      deadline,
      withGroups(async (groups) => {
        for (const size of sizes) {
          await compare(groups, (index) =>
            alltoall(
              bytes(size * members, index),
              indices.map(() => size),
            ),
          );
          const part = Math.floor(size / members);
          await compare(groups, (index) =>
            // The last bytes are not sent to any member: sendBytes may leave a remainder.
            alltoall(
              bytes(size + 5, index),
              indices.map((to) => ((index + to) % 3 === 0 ? 0 : part)),
            ),
          );
        }
      }),
    );

    test(
      'lets no member pass a barrier before all have reached it',
      deadline,
      withGroups(async (groups) => {
        await compare(groups, () => ({ kind: 'barrier' }));
      }),
    );
  });
}

function describeReductions(makeWorld: MakeWorld, compare: Compare): void {
  for (const members of [2, 3]) {
    test(`${members} members reduce every dtype with every op to the bits of reduceInto`, deadline, () =>
      withWorld(makeWorld, members, async (groups) => {
        for (const dtype of dtypeNames) {
          for (const op of [Sum, Min, Max, Product]) {
            for (const length of [7, 1000, 20_011]) {
              await compare(groups, (index) => ({
                ...allreduce([values(dtype, length, index)], [zeros(dtype, length)], op),
                dtype,
              }));
            }
          }
        }
      }),
    );

    test(`${members} members scale before and after, in every dtype but bool`, deadline, () =>
      withWorld(makeWorld, members, async (groups) => {
        for (const dtype of dtypeNames.filter((each) => each !== 'bool')) {
          for (const [prescale, postscale] of [
            [1, 1 / 3],
            [1 / 3, 1],
            [0.3, -7],
          ] as const) {
            for (const length of [5, 20_011]) {
              await compare(groups, (index) => ({
                ...allreduce([values(dtype, length, index)], [zeros(dtype, length)]),
                dtype,
                prescale,
                postscale,
              }));
              const counts = [3, length - 3, 0].slice(0, members);
              await compare(groups, (index) => ({
                kind: 'reducescatter',
                dtype,
                op: Sum,
                counts,
                prescale,
                postscale,
                input: values(dtype, length, index),
                output: zeros(dtype, counts[index] as number),
              }));
            }
          }
        }
      }),
    );

    test(`${members} members pass a NaN on and keep the sign of zero`, deadline, () =>
      withWorld(makeWorld, members, async (groups) => {
        for (const op of [Sum, Min, Max, Product]) {
          const operations = groups.map((_, index) => {
            const special = [Number.NaN, -0, 0, Infinity, -Infinity, 1e-45];
            const input = Float32Array.from({ length: 36 }, (_each, i) =>
              Number(special[index === 0 ? i % 6 : Math.floor(i / 6)]),
            );
            return allreduce([input], [new Float32Array(36)], op);
          });
          const expected = operations.map(copyOperation);
          runTogether(expected);
          await runOnAll(groups, operations);
          // Compared as numbers, because the bits of a resulting NaN are not defined.
          const isInOrder = compare === compareBits;
          const plain = (arrays: readonly TypedArray[]) =>
            // Of -0 and +0, the result is the later one, which depends on the order.
            isInOrder ? arrays : Array.from(arrays[0] as Float32Array, (value) => value + 0);
          for (const [index, operation] of operations.entries()) {
            const { outputs } = expected[index] as typeof operation;
            assert.deepEqual(plain(operation.outputs), plain(outputs));
          }
        }
      }),
    );
  }

  test('the same inputs give the same bits twice', deadline, () =>
    withWorld(makeWorld, 4, async (groups) => {
      const results: Buffer[] = [];
      for (let run = 0; run < 2; run++) {
        const operations = groups.map((_, index) =>
          allreduce([values('float32', 100_003, index)], [zeros('float32', 100_003)]),
        );
        await runOnAll(groups, operations);
        results.push(...operations.map(({ outputs }) => bytesOf(outputs[0] as TypedArray)));
      }
      for (const result of results) assert.ok(result.equals(results[0] as Buffer));
    }),
  );

  test(
    'groups of subsets of the ranks work at the same time, each with its own order of members',
    deadline,
    () =>
      withWorld(makeWorld, 4, async (_groups, transports) => {
        const left = await openGroups(transports, [2, 0], 1);
        const right = await openGroups(transports, [1, 3, 0], 2);
        const make =
          (group: TransportGroup) =>
          (index: number): TransportOperation =>
            allreduce([values('float32', 50_000, index + 10 * group.size)], [zeros('float32', 50_000)], Max);
        await Promise.all([left, right].map((groups) => compare(groups, make(groups[0] as TransportGroup))));
        for (const group of [...left, ...right]) group.close();
      }),
  );
}

/** float32 tensors that travel as half floats. */
function describeWires(makeWorld: MakeWorld, compare: Compare): void {
  for (const members of [2, 3]) {
    test(
      `${members} members reduce float32 that travels as half floats: sizes, lists, scales, parts, special values`,
      deadline,
      () =>
        withWorld(makeWorld, members, async (groups) => {
          for (const wire of ['float16', 'bfloat16'] as const) {
            for (const [i, length] of [1, 21, 513, 16_385, 150_001].entries()) {
              await compare(groups, (index) => {
                const input = values('float32', length, index);
                const output = i % 2 === 0 ? zeros('float32', length) : input;
                return { ...allreduce([input], [output], [Sum, Max, Product][i % 3]), wire };
              });
            }
            await compareScaled(groups, [3, 0, 1, 7], wire, { prescale: 1 / 3, postscale: 1 }, compare);
            await compareScaled(groups, [70_001, 0, 1], wire, { prescale: 0.3, postscale: -1 / 3 }, compare);
            for (const op of [Sum, Max]) await compareSpecial(groups, wire, op);
          }
        }),
    );
  }
}

async function compareScaled(
  groups: readonly TransportGroup[],
  lengths: readonly number[],
  wire: HalfDType,
  scales: { prescale: number; postscale: number },
  compare: Compare,
): Promise<void> {
  await compare(groups, (index) => {
    const inputs = lengths.map((length, at) => values('float32', length, 10 * at + index));
    const outputs = inputs.map((input, at) => (at % 2 === 0 ? input : zeros('float32', input.length)));
    return { ...allreduce(inputs, outputs), wire, ...scales };
  });
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const counts = [3, total - 3, 0].slice(0, groups.length);
  await compare(groups, (index) => ({
    kind: 'reducescatter',
    dtype: 'float32',
    wire,
    op: Sum,
    counts,
    ...scales,
    input: values('float32', total, index),
    output: zeros('float32', counts[index] as number),
  }));
}

/** NaN, infinities, overflow, subnormals, ties. */
async function compareSpecial(
  groups: readonly TransportGroup[],
  wire: HalfDType,
  op: ReduceOp,
): Promise<void> {
  const special = [Number.NaN, -0, Infinity, -Infinity, 1e-45, 65_519.9, 65_520, 3.4e38, 2 ** -25, 2 ** -24];
  special.push(1 + 2 ** -11, 1 + 3 * 2 ** -11, 1 + 2 ** -8, 1 + 3 * 2 ** -8, -(2 ** -14) + 2 ** -25);
  const operations = groups.map((_, index) => {
    const input = Float32Array.from(special, (value, i) => (i % groups.length === index ? value : 0.5));
    return { ...allreduce([input], [new Float32Array(special.length)], op), wire };
  });
  const expected = operations.map(copyOperation);
  runTogether(expected);
  await runOnAll(groups, operations);
  // Compared as numbers, because the bits of a resulting NaN are not defined.
  for (const [index, { outputs }] of operations.entries()) {
    assert.deepEqual(outputs, (expected[index] as (typeof operations)[number]).outputs);
  }
}

type Make = (index: number) => TransportOperation;
type Compare = (groups: readonly TransportGroup[], make: Make) => Promise<void>;
type IsRight = (array: TypedArray, wanted: TypedArray, operation: TransportOperation) => boolean;

const compareBits: Compare = (groups, make) =>
  compareWith(groups, make, (array, wanted) => bytesOf(array).equals(bytesOf(wanted)));

const compareClosely: Compare = async (groups, make) => {
  const all: TransportOperation[] = [];
  await compareWith(groups, make, (array, wanted, operation) => {
    all.push(operation);
    if (bytesOf(array).equals(bytesOf(wanted))) return true;
    return isReduction(operation) && isClose(array, wanted, operation, groups.length);
  });
  const first = all[0];
  if (first?.kind !== 'allreduce') return;
  for (const operation of all) {
    if (operation.kind !== 'allreduce') continue;
    for (const [i, output] of operation.outputs.entries()) {
      assert.ok(bytesOf(output).equals(bytesOf(first.outputs[i] as TypedArray)), 'members have other bits');
    }
  }
};

/** Runs one operation on all members and the reference on copies. All arrays must be equal. */
async function compareWith(groups: readonly TransportGroup[], make: Make, isRight: IsRight): Promise<void> {
  const operations = groups.map((_, index) => make(index));
  const expected = operations.map(copyOperation);
  runTogether(expected);
  await runOnAll(groups, operations);
  for (const [index, operation] of operations.entries()) {
    const wanted = arraysOf(expected[index] as TransportOperation);
    for (const [i, array] of arraysOf(operation).entries()) {
      const isSame = isRight(array, wanted[i] as TypedArray, operation);
      assert.ok(isSame, `${operation.kind}: array ${i} of member ${index} of ${groups.length} is wrong`);
    }
    if (operation.kind === 'allgather') {
      assert.deepEqual(operation.byteCounts, (expected[index] as typeof operation).byteCounts);
    }
    if (operation.kind === 'alltoall') {
      assert.deepEqual(operation.receivedBytes, (expected[index] as typeof operation).receivedBytes);
    }
  }
}

function allreduce(inputs: readonly TypedArray[], outputs: readonly TypedArray[], op: ReduceOp = Sum) {
  return { kind: 'allreduce', dtype: 'float32', op, inputs, outputs, prescale: 1, postscale: 1 } as const;
}

function alltoall(input: Uint8Array, sendBytes: readonly number[]): TransportOperation {
  return { kind: 'alltoall', input, sendBytes };
}

/** Includes inputs, because a transport must not write to inputs that are not outputs. */
function arraysOf(operation: TransportOperation): TypedArray[] {
  switch (operation.kind) {
    case 'allreduce':
      return [...operation.inputs, ...operation.outputs];
    case 'reducescatter':
    case 'broadcast':
      return [operation.input, operation.output];
    case 'allgather':
    case 'alltoall':
      assert.ok(operation.output !== undefined);
      return [operation.input, operation.output];
    case 'barrier':
      return [];
  }
}

/** Copies all arrays. An array that is used twice (in place) is copied once. */
function copyOperation(operation: TransportOperation): TransportOperation {
  const copies = new Map<TypedArray, TypedArray>();
  const copy = <A extends TypedArray>(array: A): A => {
    const known = copies.get(array) ?? array.slice();
    copies.set(array, known);
    return known as A;
  };
  switch (operation.kind) {
    case 'allreduce':
      return { ...operation, inputs: operation.inputs.map(copy), outputs: operation.outputs.map(copy) };
    case 'reducescatter':
    case 'broadcast':
      return {
        ...operation,
        input: copy(operation.input),
        output: copy(operation.output),
      } as TransportOperation;
    case 'allgather':
    case 'alltoall':
      return { ...operation, input: copy(operation.input) };
    case 'barrier':
      return operation;
  }
}
