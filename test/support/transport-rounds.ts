// The part of the conformance suite about rounds: what members see when they disagree, wait, take back or fail.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Sum } from '../../src/tensor/reduce-op.ts';
import type { AllreduceOperation, Batch, TransportGroup } from '../../src/transport/transport.ts';
import { batchOf, type MakeWorld, round, submit, turn, until, withWorld } from './transport-world.ts';

const deadline = { timeout: 60_000 };
type Groups = [TransportGroup, TransportGroup, ...TransportGroup[]];

export function describeRounds(makeWorld: MakeWorld): void {
  const withTwo = (body: (groups: Groups) => Promise<void>) => () =>
    withWorld(makeWorld, 2, (groups) => body(groups as Groups));

  describe('rounds', () => {
    test('batches run in the order they were submitted', deadline, () =>
      withWorld(makeWorld, 3, async (groups) => {
        const data = groups.map((_, index) => Float64Array.of(index + 1));
        const finished: string[] = [];
        await Promise.all(
          groups.flatMap((group, index) =>
            // Each batch works on the result of the one before.
            Array.from({ length: 40 }, async (_, i) => {
              const batch = sumBatch(data[index] as Float64Array, {
                fingerprint: i,
                postscale: i % 2 ? 0.25 : 1,
              });
              assert.equal(await submit(group, batch), 'done');
              if (index === 0) finished.push(String(i));
            }),
          ),
        );
        // 6, then alternately 3/4 of the value and 3 times the value.
        let expected = 6;
        for (let i = 1; i < 40; i++) expected *= i % 2 ? 0.75 : 3;
        for (const array of data) assert.equal(array[0], expected);
        assert.deepEqual(
          finished,
          Array.from({ length: 40 }, (_, i) => String(i)),
        );
      }),
    );

    test(
      'a batch may have several rounds',
      deadline,
      withTwo(async (groups) => {
        const data = groups.map((_, index) => Float64Array.of(index + 1));
        const outcomes = groups.map((group, index) =>
          submit(
            group,
            batchOf([
              round(sum(data[index] as Float64Array), 1),
              round({ kind: 'barrier' }, 2),
              round(sum(data[index] as Float64Array), 3),
            ]),
          ),
        );
        assert.deepEqual(await Promise.all(outcomes), ['done', 'done']);
        assert.deepEqual(data, [Float64Array.of(6), Float64Array.of(6)]);
      }),
    );

    for (const length of [1, 100_000]) {
      test(
        `a mismatch changes no byte of ${length} elements, and the group still works`,
        deadline,
        withTwo(async (groups) => {
          const data = groups.map((_, index) => new Float64Array(length).fill(index + 1));
          const outcomes = groups.map((group, index) =>
            submit(group, sumBatch(data[index] as Float64Array, { fingerprint: index })),
          );
          assert.deepEqual(await Promise.all(outcomes), ['mismatch', 'mismatch']);
          for (const [index, array] of data.entries()) assert.ok(array.every((each) => each === index + 1));
          for (const group of groups) assert.deepEqual(group.takeBack(), []);
          await sumsUp(groups);
        }),
      );
    }

    test(
      'after a mismatch nothing starts before takeBack(), which returns the queued batches',
      deadline,
      withTwo(async (groups) => {
        const data = [Float64Array.of(1), Float64Array.of(2)] as const;
        const first = groups.map((group, index) =>
          submit(group, sumBatch(new Float64Array(1), { fingerprint: index })),
        );
        const queued = groups.map((group, index) => {
          const batch = sumBatch(data[index as 0 | 1], {});
          assert.equal(
            group.submit(batch, () => assert.fail('a batch was completed after takeBack()')),
            undefined,
          );
          return batch;
        });
        assert.deepEqual(await Promise.all(first), ['mismatch', 'mismatch']);
        for (let i = 0; i < 20; i++) await turn();
        for (const [index, group] of groups.entries()) assert.deepEqual(group.takeBack(), [queued[index]]);
        assert.deepEqual(data, [Float64Array.of(1), Float64Array.of(2)]);
        await sumsUp(groups);
      }),
    );

    test(
      'takeBack() leaves the batch that was posted',
      deadline,
      withTwo(async (groups) => {
        const [a, b] = groups;
        const data = [Float64Array.of(1), Float64Array.of(2)] as const;
        const posted = submit(a, sumBatch(data[0], {}));
        const queued = [sumBatch(data[0], {}), sumBatch(data[0], {})];
        for (const batch of queued)
          a.submit(batch, () => assert.fail('a batch was completed after takeBack()'));
        await until(() => !a.missing().includes(0), 'member 0 posts its first batch');
        assert.deepEqual(a.missing(), [1]);
        assert.deepEqual(a.takeBack(), queued);
        assert.deepEqual(await Promise.all([posted, submit(b, sumBatch(data[1], {}))]), ['done', 'done']);
        assert.deepEqual(data, [Float64Array.of(3), Float64Array.of(3)]);
        await sumsUp(groups);
      }),
    );

    test(
      'a passive batch waits until another member has posted',
      deadline,
      withTwo(async (groups) => {
        const [a, b] = groups;
        const lonely = sumBatch(new Float64Array(1), { passive: true });
        assert.equal(
          a.submit(lonely, () => assert.fail('nobody else has posted')),
          undefined,
        );
        for (let i = 0; i < 20; i++) await turn();
        assert.deepEqual(a.takeBack(), [lonely]);

        const data = [Float64Array.of(1), Float64Array.of(2)] as const;
        const outcomes = [submit(a, sumBatch(data[0], { passive: true })), submit(b, sumBatch(data[1], {}))];
        assert.deepEqual(await Promise.all(outcomes), ['done', 'done']);
        assert.deepEqual(data, [Float64Array.of(3), Float64Array.of(3)]);
      }),
    );

    test(
      'a passive batch can be the one that disagrees',
      deadline,
      withTwo(async ([a, b]) => {
        const outcomes = [
          submit(a, sumBatch(new Float64Array(1), { passive: true, fingerprint: 1 })),
          submit(b, sumBatch(new Float64Array(1), { fingerprint: 2 })),
        ];
        assert.deepEqual(await Promise.all(outcomes), ['mismatch', 'mismatch']);
        for (const group of [a, b]) group.takeBack();
        await sumsUp([a, b]);
      }),
    );

    test(
      'after the deadline the wait fails with the missing members, and so do all later waits',
      deadline,
      withTwo(async ([a]) => {
        const batch = sumBatch(new Float64Array(1), { timeoutMs: 100, label: 'allreduce "grad"' });
        await assert.rejects(submit(a, batch), (error: Error & { code?: string; rank?: number }) => {
          assert.equal(error.code, 'ERR_HVD_TIMEOUT');
          assert.match(error.message, /allreduce "grad"/);
          assert.match(error.message, /\brank 1\b/);
          assert.equal(error.rank, 1);
          return true;
        });
        await assert.rejects(submit(a, sumBatch(new Float64Array(1), {})), { code: 'ERR_HVD_TIMEOUT' });
      }),
    );

    test('batches of a closed group end with an error', deadline, () =>
      withWorld(makeWorld, 2, async (groups) => {
        const [a] = groups as Groups;
        const pending = submit(a, sumBatch(new Float64Array(1), {}));
        a.close();
        a.close();
        await assert.rejects(pending, { code: 'ERR_HVD_SHUT_DOWN' });
      }),
    );
  });
}

async function sumsUp(groups: readonly TransportGroup[]): Promise<void> {
  const data = groups.map((_, index) => Float64Array.of(index + 1));
  const outcomes = groups.map((group, index) => submit(group, sumBatch(data[index] as Float64Array, {})));
  assert.deepEqual(
    await Promise.all(outcomes),
    groups.map(() => 'done'),
  );
  const expected = (groups.length * (groups.length + 1)) / 2;
  for (const array of data) assert.equal(array[0], expected);
}

function sum(data: Float64Array, postscale = 1): AllreduceOperation {
  return {
    kind: 'allreduce',
    dtype: 'float64',
    op: Sum,
    inputs: [data],
    outputs: [data],
    prescale: 1,
    postscale,
  };
}

function sumBatch(
  data: Float64Array,
  options: Partial<Batch> & { fingerprint?: number; postscale?: number },
): Batch {
  const { fingerprint = 1, postscale = 1, ...details } = options;
  return batchOf([round(sum(data, postscale), fingerprint)], details);
}
