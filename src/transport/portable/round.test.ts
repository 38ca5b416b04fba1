import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { bytes, values, zeros } from '../../../test/support/transport-data.ts';
import { round } from '../../../test/support/transport-world.ts';
import { Max, Sum } from '../../tensor/reduce-op.ts';
import { runTogether } from '../group/run-together.ts';
import type { TransportOperation } from '../transport.ts';
import type { Steps } from './algorithms/exchange.ts';
import { createGroupFiles, GroupFiles, openGroupFiles } from './group-files.ts';
import { runRound } from './round.ts';

// Small posts and slots, so that a few hundred bytes are a transfer of many steps.
const sizes = { eagerBytes: 64, slotBytes: 512 };

describe('rounds of members that are driven in any order', () => {
  test('give the result of runTogether(), whichever member is slow', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 4 }),
        fc.array(fc.tuple(fc.integer({ min: 0, max: 6 }), fc.nat(4000)), { minLength: 1, maxLength: 6 }),
        fc.infiniteStream(fc.nat(1000)),
        fc.nat(3),
        (members, plan, choices, slowOne) => {
          const groups = openAll(members);
          try {
            const programs = plan.map(([kind, size], r) =>
              groups.map((_, index) => operationOf(kind, size, index, members, r)),
            );
            const expected = plan.map(([kind, size], r) =>
              groups.map((_, index) => operationOf(kind, size, index, members, r)),
            );
            for (const operations of expected) if (!isMismatch(operations)) runTogether(operations);
            const agreed = groups.map((): boolean[] => []);
            const generators = groups.map((files, index) =>
              member(files, programs, index, agreed[index] as boolean[]),
            );
            drive(generators, slowOne, () => choices.next().value as number);
            for (const [r, operations] of programs.entries()) {
              assert.deepEqual(operations, expected[r]);
              for (const list of agreed) assert.equal(list[r], !isMismatch(operations));
            }
          } finally {
            for (const files of groups) files.close();
          }
        },
      ),
      { numRuns: 150 },
    );
  });
});

/** All rounds of one member, the odd ones passively if another member is not. */
function* member(
  files: GroupFiles,
  programs: readonly (readonly TransportOperation[])[],
  index: number,
  agreed: boolean[],
): Steps {
  for (const [r, operations] of programs.entries()) {
    const operation = operations[index] as TransportOperation;
    const fingerprint = operation.kind === 'barrier' && isMismatch(operations) ? index : 7;
    const isPassive = index > 0 && (r + index) % 3 === 0;
    agreed.push(yield* runRound(files, round(operation, fingerprint), isPassive, () => {}));
  }
}

/** Resumes the generators in an order made of `choose`; one of them rarely gets its turn. */
function drive(generators: readonly Steps[], slowOne: number, choose: () => number): void {
  const active = new Map(generators.entries());
  for (let turns = 0; active.size > 0; turns++) {
    assert.ok(turns < 1_000_000, 'the members wait for each other');
    const keys = [...active.keys()];
    const key = keys[choose() % keys.length] as number;
    // Only now and then; but always when all the others are done.
    if (key === slowOne && active.size > 1 && turns % 17 !== 0) continue;
    const count = 1 + (choose() % 12);
    for (let i = 0; i < count; i++) {
      if (active.get(key)?.next().done === true) {
        active.delete(key);
        break;
      }
    }
  }
}

function openAll(members: number): GroupFiles[] {
  const created = createGroupFiles(members, sizes, tmpdir());
  const paths = created.map(({ path }) => path);
  const files = created.map((_, index) =>
    index === 0 ? created : openGroupFiles(paths, sizes, members, process.pid),
  );
  return files.map((each, index) => {
    const group = new GroupFiles(each, index, sizes);
    group.beginRound();
    return group;
  });
}

/** Kind 6 is a barrier that the members give different fingerprints. */
function operationOf(
  kind: number,
  size: number,
  index: number,
  members: number,
  seed: number,
): TransportOperation {
  const input = values('float32', size, index + 10 * seed) as Float32Array;
  const scales = { prescale: seed % 2 ? 0.5 : 1, postscale: 1 / members };
  switch (kind) {
    case 0: {
      const middle = Math.floor(size / 3);
      const inputs = [input.subarray(0, middle), input.subarray(middle)];
      return { kind: 'allreduce', dtype: 'float32', op: Sum, inputs, outputs: inputs, ...scales };
    }
    case 1: {
      const counts = Array.from({ length: members }, (_, i) => (i === 1 ? size : 0));
      const output = zeros('float32', counts[index] as number);
      return { kind: 'reducescatter', dtype: 'float32', op: Max, input, output, counts, ...scales };
    }
    case 2:
      return { kind: 'allgather', input: bytes(index % 2 ? size : size % 97, index) };
    case 3:
      return {
        kind: 'broadcast',
        root: size % members,
        input: bytes(size, index),
        output: new Uint8Array(size),
      };
    case 4: {
      const sendBytes = Array.from({ length: members }, (_, to) => (size * (index + to)) % 801);
      return { kind: 'alltoall', input: bytes(801 * members, index), sendBytes };
    }
    default:
      return kind === 5 ? { kind: 'barrier' } : ({ kind: 'barrier', isMismatch: true } as TransportOperation);
  }
}

function isMismatch(operations: readonly TransportOperation[]): boolean {
  return operations.some((operation) => 'isMismatch' in operation);
}
