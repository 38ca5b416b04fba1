// Whatever the order and the ticks in which 2 to 4 ranks ask for the same things: every request ends, and ends alike on all
// ranks. Over the in-memory transport.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { requestOf, zeroRequest } from '../context/requests.ts';
import { HorovodError } from '../errors.ts';
import type { Plan } from '../operations/plan.ts';
import { Sum } from '../tensor/reduce-op.ts';
import { makeExchange } from '../testing/exchange.ts';
import { MemoryHub } from '../transport/memory/memory-transport.ts';
import { Channel } from './channel.ts';
import { nowMs } from './clock.ts';
import { Observers } from './observer.ts';

interface Tensor {
  readonly name: string;
  /** Ranks that ask for it; the others have joined by then. */
  readonly askers: readonly boolean[];
  /** This rank asks for another shape. */
  readonly oddOne: number | undefined;
}

interface Program {
  readonly ranks: number;
  readonly tensors: readonly Tensor[];
  /** By rank: the order in which it asks, and how many ticks it lets pass before each. */
  readonly orders: readonly (readonly number[])[];
  readonly pauses: readonly (readonly number[])[];
  readonly fusionThresholdBytes: number;
}

const programs: fc.Arbitrary<Program> = fc
  .record({ ranks: fc.integer({ min: 2, max: 4 }), count: fc.integer({ min: 1, max: 6 }) })
  .chain(({ ranks, count }) => {
    const places = Array.from({ length: count }, (_, i) => i);
    const perRank = <T>(values: fc.Arbitrary<T>) => fc.array(values, { minLength: ranks, maxLength: ranks });
    const tensor = fc.record({
      askers: perRank(fc.integer({ min: 0, max: 9 }).map((draw) => draw > 0)),
      oddOne: fc.option(fc.integer({ min: 0, max: ranks - 1 }), { freq: 4, nil: undefined }),
    });
    return fc.record({
      ranks: fc.constant(ranks),
      tensors: fc
        .array(tensor, { minLength: count, maxLength: count })
        .map((list) => list.map((each, i) => ({ ...each, name: `tensor ${i}` }))),
      orders: perRank(fc.shuffledSubarray(places, { minLength: count, maxLength: count })),
      pauses: perRank(
        fc.array(fc.integer({ min: 0, max: 3 }), { minLength: count + 1, maxLength: count + 1 }),
      ),
      fusionThresholdBytes: fc.constantFrom(0, 16, 1 << 20),
    });
  });

test('random interleavings end with every request settled, and alike on all ranks', async () => {
  await fc.assert(
    fc.asyncProperty(programs, async (program) => {
      const { ranks, tensors } = program;
      const hub = new MemoryHub(ranks);
      const exchangeOf = makeExchange(ranks);
      const members = Array.from({ length: ranks }, (_, rank) => rank);
      const outcomes = await Promise.all(
        members.map((rank) => runRank(program, rank, hub, members, exchangeOf(rank))),
      );
      tensors.forEach(({ name, askers }, i) => {
        const asking = members.filter((rank) => askers[rank]);
        const results = new Set(asking.map((rank) => outcomes[rank]?.get(name)));
        assert.equal(results.size, Math.min(asking.length, 1), `${name}: ${[...results].join(' | ')}`);
        const [result] = results;
        const isOdd =
          tensors[i]?.oddOne !== undefined && asking.includes(tensors[i].oddOne) && asking.length > 1;
        const sum = asking.reduce((total, rank) => total + rank + 1, 0);
        if (result !== undefined) assert.equal(result, isOdd ? 'ERR_HVD_MISMATCH' : `${sum}`, name);
      });
      assert.equal(new Set(outcomes.map((each) => each.get('join'))).size, 1, 'who joined last');
    }),
    { numRuns: 150 },
  );
});

/** What became of each request. */
async function runRank(
  program: Program,
  rank: number,
  hub: MemoryHub,
  members: readonly number[],
  exchange: (text: string) => Promise<string[]>,
): Promise<Map<string, string>> {
  const group = await hub
    .transport(rank)
    .openGroup({ id: 0, members, index: rank, exchange, timeoutMs: 10_000 });
  const channel = new Channel(group, {
    rank,
    processSet: 0,
    members,
    fusionThresholdBytes: program.fusionThresholdBytes,
    cycleTimeMs: 0,
    stallAfterMs: 500,
    observers: new Observers({ write() {}, tell() {} }),
    nowMs,
    fail: (error) => hub.fail(error),
    zeroRequest: (description) => zeroRequest(description, members.length, 10_000),
  });
  const outcomes = new Map<string, string>();
  const ask = (name: string, plan: Plan<string>) =>
    new Promise<void>((done) => {
      const request = requestOf(channel, {
        plan,
        options: {},
        key: name,
        rank,
        defaultTimeoutMs: 10_000,
        resolve() {
          outcomes.set(name, plan.kind === 'join' ? `${request.lastJoined}` : plan.result());
          done();
        },
        reject(error) {
          outcomes.set(name, error instanceof HorovodError ? error.code : String(error));
          done();
        },
      });
      channel.submit(request);
    });
  const asked: Promise<void>[] = [];
  for (const [turn, i] of (program.orders[rank] ?? []).entries()) {
    for (let pause = program.pauses[rank]?.[turn] ?? 0; pause > 0; pause--) await Promise.resolve();
    const { name, askers, oddOne } = program.tensors[i] as Tensor;
    if (askers[rank]) asked.push(ask(name, allreducePlan(rank, oddOne === rank ? 3 : 2)));
  }
  asked.push(ask('join', { kind: 'join', operands: [], operations: [], result: () => '' }));
  await Promise.all(asked);
  return outcomes;
}

function allreducePlan(rank: number, length: number): Plan<string> {
  const data = new Float32Array(length).fill(rank + 1);
  return {
    kind: 'allreduce',
    operands: [{ shape: [length], dtype: 'float32' }],
    operations: [
      {
        kind: 'allreduce',
        dtype: 'float32',
        op: Sum,
        inputs: [data],
        outputs: [data],
        prescale: 1,
        postscale: 1,
      },
    ],
    op: Sum,
    result: () => String(data[0]),
  };
}
