import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { connectPair } from '../../../test/support/link-pair.ts';
import { bytes, values, zeros } from '../../../test/support/transport-data.ts';
import { round, turn } from '../../../test/support/transport-world.ts';
import { HorovodError } from '../../errors.ts';
import type { Connection } from '../../net/connection.ts';
import { Max, Min, Sum } from '../../tensor/reduce-op.ts';
import { runTogether } from '../group/run-together.ts';
import type { TransportOperation } from '../transport.ts';
import { seatsOf } from './algorithms/cluster/seats.ts';
import type { Steps } from './algorithms/exchange.ts';
import { ClusterRounds, extraBytesFor } from './cluster-rounds.ts';
import { createGroupFiles, GroupFiles, openGroupFiles, postBytesOf } from './group-files.ts';
import { Link } from './link.ts';
import { Post, payloadOffsetOf } from './post.ts';

// Small posts and slots, so that a few thousand bytes are a transfer of many steps.
const sizes = { eagerBytes: 64, slotBytes: 1024 };
const deadline = { timeout: 60_000 };

describe('rounds of members on several hosts, driven in any order', () => {
  for (const hosts of [
    [0, 1, 2],
    [0, 1, 0, 1],
    [0, 0, 0, 1],
    [1, 0, 1, 1, 0],
  ]) {
    test(`give the result of runTogether() on the hosts ${hosts.join(' ')}`, deadline, async () => {
      const members = await openAll(hosts);
      try {
        let used = 0;
        fc.assert(
          fc.property(
            fc.array(fc.tuple(fc.integer({ min: 0, max: 6 }), fc.nat(6000)), { minLength: 1, maxLength: 5 }),
            fc.infiniteStream(fc.nat(1000)),
            fc.nat(hosts.length - 1),
            (plan, choices, slowOne) => {
              used++;
              const operationsOf = () =>
                plan.map(([kind, size], r) =>
                  members.map((_, index) => operationOf(kind, size, index, hosts.length, r + used)),
                );
              const programs = operationsOf();
              const expected = operationsOf();
              for (const operations of expected) if (!isMismatch(operations)) runTogether(operations);
              const agreed = members.map((): boolean[] => []);
              const generators = members.map((rounds, index) =>
                play(rounds, programs, index, agreed[index] as boolean[]),
              );
              drive(generators, slowOne, () => choices.next().value as number);
              for (const [r, operations] of programs.entries()) {
                assert.deepEqual(operations, expected[r]);
                for (const list of agreed) assert.equal(list[r], !isMismatch(operations));
              }
            },
          ),
          // The members go on from run to run; after a failed one they are in the middle of something.
          { numRuns: 40, endOnFailure: true },
        );
      } finally {
        for (const rounds of members) rounds.close();
      }
    });
  }
});

describe('what comes from a connection that is out of step', () => {
  const header = payloadOffsetOf(2);

  async function hear(said: readonly Uint8Array[]): Promise<unknown> {
    const [dialed, accepted] = await connectPair();
    const rounds = openMember([0, 1], 1, undefined, [new Link(accepted), undefined]);
    try {
      for (const bytesSaid of said) dialed.socket.write(bytesSaid);
      const steps = rounds.run(round({ kind: 'barrier' }), false, () => {});
      const end = performance.now() + 10_000;
      while (performance.now() < end) {
        if (steps.next().done === true) return 'done';
        await turn();
      }
      return 'nothing';
    } catch (error) {
      return error;
    } finally {
      rounds.close();
      dialed.release();
    }
  }

  const ready = Uint8Array.of(0x52);
  const postOf = (number: number, payloadBytes = 0): Uint8Array => {
    const memory = new Uint8Array(header + sizes.eagerBytes);
    const post = new Post(memory, 0, 2, sizes.eagerBytes);
    const { fingerprintLow, fingerprintHigh } = round({ kind: 'barrier' });
    post.write({ round: number, fingerprintLow, fingerprintHigh, payloadBytes, totalBytes: 0 });
    return memory.subarray(0, header + payloadBytes);
  };
  const isRejected = (error: unknown, pattern: RegExp): void => {
    assert.ok(HorovodError.is(error), String(error));
    assert.equal(error.code, 'ERR_HVD_PEER_LOST');
    assert.match(error.message, pattern);
  };

  test('a post of this round is taken', deadline, async () => {
    assert.equal(await hear([ready, postOf(1)]), 'done');
  });

  test('a post of another round is an error that says so', deadline, async () => {
    for (const wrong of [0, 2, -1]) isRejected(await hear([ready, postOf(wrong)]), /not a post of round 1/);
  });

  test('a payload that does not fit its check is an error', deadline, async () => {
    const whole = postOf(1, 16);
    whole[header + 3] = 1;
    isRejected(await hear([ready, whole]), /not a post of round 1/);
  });

  test('whatever bytes come, they are an error and no crash', deadline, () =>
    fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: header, maxLength: 4 * header }), async (noise) => {
        isRejected(await hear([ready, noise]), /not a post of round 1/);
      }),
      { numRuns: 50 },
    ),
  );

  test('a post of which one byte is wrong is an error', deadline, async () => {
    for (const at of [0, 4, 9, 17, 20, 25, header - 1]) {
      const post = postOf(1);
      post[at] = (post[at] as number) ^ 0x10;
      isRejected(await hear([ready, post]), /not a post of round 1/);
    }
  });

  test('a connection that does not begin with the ready byte is an error', deadline, async () => {
    isRejected(await hear([Uint8Array.of(7), postOf(1)]), /began with a wrong byte \(7\)/);
  });
});

/** One ClusterRounds for each member, all in this process, with connections between those of different hosts. */
async function openAll(hosts: readonly number[]): Promise<ClusterRounds[]> {
  const links = hosts.map((): (Link | undefined)[] => hosts.map(() => undefined));
  for (const [a, hostA] of hosts.entries()) {
    for (const [b, hostB] of hosts.entries()) {
      if (b <= a || hostA === hostB) continue;
      const [dialed, accepted]: [Connection, Connection] = await connectPair();
      (links[a] as (Link | undefined)[])[b] = new Link(accepted);
      (links[b] as (Link | undefined)[])[a] = new Link(dialed);
    }
  }
  const paths = new Map<number, string[]>();
  return hosts.map((host, index) => {
    const rounds = openMember(hosts, index, paths.get(host), links[index] as (Link | undefined)[], (made) =>
      paths.set(host, made),
    );
    return rounds;
  });
}

function openMember(
  hosts: readonly number[],
  index: number,
  paths: readonly string[] | undefined,
  links: readonly (Link | undefined)[],
  onMade: (paths: string[]) => void = () => {},
): ClusterRounds {
  const seats = seatsOf(hosts, index);
  const opened =
    paths === undefined
      ? createGroupFiles(seats.local.length, sizes, tmpdir(), hosts.length)
      : openGroupFiles(paths, sizes, hosts.length, process.pid);
  if (paths === undefined) onMade(opened.map(({ path }) => path));
  const extraBytes = extraBytesFor(hosts.length, sizes.eagerBytes, postBytesOf(hosts.length, sizes));
  const files = new GroupFiles(opened, seats.local.indexOf(index), sizes, {
    addressees: hosts.length,
    extraBytes,
  });
  // Both ways to gather are to be tried; groups of four take the flat one.
  const gathersByHost = hosts.length !== 4;
  return new ClusterRounds({
    seats,
    files,
    links,
    gathersByHost,
    describeLoss: (member, seen) => new HorovodError('ERR_HVD_PEER_LOST', `member ${member}: ${seen}`),
    describeTampering: (member) => new HorovodError('ERR_HVD_TAMPERED', `member ${member}`),
  });
}

/** All rounds of one member, some of them passively if another member is not. */
function* play(
  rounds: ClusterRounds,
  programs: readonly (readonly TransportOperation[])[],
  index: number,
  agreed: boolean[],
): Steps {
  for (const [r, operations] of programs.entries()) {
    const operation = operations[index] as TransportOperation;
    const fingerprint = operation.kind === 'barrier' && isMismatch(operations) ? index : 7;
    const isPassive = index > 0 && (r + index) % 3 === 0;
    agreed.push(yield* rounds.run(round(operation, fingerprint), isPassive, () => {}));
  }
}

/** Resumes the generators in an order made of `choose`; one of them rarely gets its turn. */
function drive(generators: readonly Steps[], slowOne: number, choose: () => number): void {
  const active = new Map(generators.entries());
  for (let turns = 0; active.size > 0; turns++) {
    assert.ok(turns < 1_000_000, 'the members wait for each other');
    const keys = [...active.keys()];
    const key = keys[choose() % keys.length] as number;
    if (key === slowOne && active.size > 1 && turns % 17 !== 0) continue;
    const count = 1 + (choose() % 6);
    for (let i = 0; i < count; i++) {
      if (active.get(key)?.next().done === true) {
        active.delete(key);
        break;
      }
    }
  }
}

/** Kind 6 is a barrier that the members give different fingerprints. Sums are of whole numbers: any order is right. */
function operationOf(
  kind: number,
  size: number,
  index: number,
  members: number,
  seed: number,
): TransportOperation {
  const input = values('int32', size, index + 10 * seed) as Int32Array;
  const scales = { prescale: 1, postscale: 1 };
  switch (kind) {
    case 0: {
      const middle = Math.floor(size / 3);
      const inputs = [input.subarray(0, middle), input.subarray(middle, middle), input.subarray(middle)];
      return { kind: 'allreduce', dtype: 'int32', op: Sum, inputs, outputs: inputs, ...scales };
    }
    case 1: {
      const counts = Array.from({ length: members }, (_, i) => (i === 1 ? size - 3 * (size > 3 ? 1 : 0) : 0));
      counts[0] = size - (counts[1] as number);
      const output = zeros('int32', counts[index] as number);
      const op = seed % 2 === 0 ? Max : Min;
      return { kind: 'reducescatter', dtype: 'int32', op, input, output, counts, ...scales };
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
