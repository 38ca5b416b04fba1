import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { errorOf } from '../../test/support/error-of.ts';
import { Sum } from '../tensor/reduce-op.ts';
import { runContexts } from '../testing/run-contexts.ts';
import type { AllgatherOperation, AllreduceOperation, TransportOperation } from '../transport/transport.ts';
import * as hvd from './collectives.ts';
import { runPlan } from './composite.ts';
import type { Composite, Plan } from './plan.ts';

/** Everybody's value, then the sum of the sums: two parts, the second made from the first. */
function* sumTwice(value: number): Composite<number> {
  const gathered: AllgatherOperation = { kind: 'allgather', input: Uint8Array.of(value) };
  yield [gathered];
  const sum = Float64Array.of((gathered.output as Uint8Array).reduce((a, b) => a + b, 0));
  const reduced: AllreduceOperation = {
    kind: 'allreduce',
    dtype: 'float64',
    op: Sum,
    inputs: [sum],
    outputs: [sum],
    prescale: 1,
    postscale: 1,
  };
  yield [reduced];
  return sum[0] as number;
}

const planOf = (value: number, detail = 'twice'): Plan<number> => ({
  kind: 'allreduce',
  operands: [{ shape: [1], dtype: 'uint8' }],
  operations: [],
  op: Sum,
  detail,
  composite: () => sumTwice(value),
  result: () => Number.NaN,
});

describe('a composite', () => {
  test('goes through its parts, with and without a name', async () => {
    const results = await runContexts(3, async (context, rank) => [
      await runPlan(context, planOf(rank + 1), {}, 'twice'),
      await runPlan(context, planOf(rank + 1), { name: 'x' }, 'twice'),
      await runPlan(context, planOf(rank + 1), { name: 'x' }, 'twice'),
    ]);
    assert.deepEqual(results, [
      [18, 18, 18],
      [18, 18, 18],
      [18, 18, 18],
    ]);
  });

  test('may be in flight with others, asked for in another order on each rank', async () => {
    await runContexts(4, async (context, rank) => {
      const names = ['a', 'b', 'c', 'd'];
      const order = names.map((_, i) => names[(i + rank) % 4] as string);
      const results = await Promise.all(order.map((name) => runPlan(context, planOf(1), { name }, 'twice')));
      assert.deepEqual(results, [16, 16, 16, 16]);
      assert.deepEqual(await hvd.allreduce(context, Float32Array.of(1), { op: Sum }), Float32Array.of(4));
    });
  });

  test('has its parts in the flight record, under readable names', async () => {
    await runContexts(2, async (context) => {
      await runPlan(context, planOf(1), { name: 'x' }, 'twice');
      await runPlan(context, planOf(1), {}, 'twice');
      const names = context.flightRecord().map(({ name }) => name);
      const expected = ['x', 'x (part 2)', 'allreduce.noname.1', 'allreduce.noname.1 (part 2)'];
      assert.deepEqual(names.slice(-4), expected);
    });
  });

  test('that differs between ranks is one error, and the job goes on', async () => {
    await runContexts(2, async (context, rank) => {
      const failed = runPlan(context, planOf(1, rank === 0 ? 'twice' : 'thrice'), { name: 'x' }, 'twice');
      const error = await errorOf(failed);
      assert.equal(error.code, 'ERR_HVD_MISMATCH');
      assert.match(error.message, /twice.*thrice/);
      assert.equal(await runPlan(context, planOf(1), { name: 'x' }, 'twice'), 4);
    });
  });

  test('that is refused at the door is not counted', async () => {
    await runContexts(2, async (context, rank) => {
      if (rank === 0) {
        const aborted = runPlan(context, planOf(1), { signal: AbortSignal.abort() }, 'twice');
        assert.equal((await errorOf(aborted)).code, 'ERR_HVD_ABORTED');
      }
      assert.equal(await runPlan(context, planOf(1), {}, 'twice'), 4);
    });
  });

  test('that ends between its parts on one rank ends the job, and the others hear why', async () => {
    function* stumbling(): Composite<number> {
      yield sumTwice(1).next().value as TransportOperation[];
      throw new TypeError('no more of this');
    }
    const messages = await runContexts(2, async (context, rank) => {
      const plan = rank === 0 ? { ...planOf(1), composite: stumbling } : planOf(1);
      return runPlan(context, plan, { name: 'x' }, 'twice').catch((error: Error) => error.message);
    });
    assert.equal(messages[0], 'no more of this');
    assert.match(String(messages[1]), /rank 0: twice failed after some of its parts: no more of this/);
  });

  test('cannot go on with a rank that has joined, and says so', async () => {
    await runContexts(2, async (context, rank) => {
      if (rank === 0) {
        const error = await errorOf(runPlan(context, planOf(1), { name: 'x' }, 'twice'));
        assert.equal(error.code, 'ERR_HVD_JOIN_UNSUPPORTED');
        assert.match(error.message, /allreduce with compression twice is not supported/);
      }
      await hvd.join(context);
    });
  });
});
