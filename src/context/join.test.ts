import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { errorOf } from '../../test/support/error-of.ts';
import * as hvd from '../operations/collectives.ts';
import { prepareAllreduce } from '../operations/prepared.ts';
import { ProcessSet } from '../operations/process-set.ts';
import { Average, Max, Min, Sum } from '../tensor/reduce-op.ts';
import { runContexts } from '../testing/run-contexts.ts';

const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await new Promise<void>((resolve) => setImmediate(resolve));
};
const of = (...values: number[]) => Float32Array.from(values);

describe('join', () => {
  test('a rank that has joined takes part in allreduces with zeros, and all learn who came last', async () => {
    const last = await runContexts(3, async (context, rank) => {
      if (rank === 0) return hvd.join(context);
      const average = await hvd.allreduce(context, of(3, 6), { op: Average });
      assert.deepEqual(average, of(2, 4)); // the divisor is still 3
      const pair = await hvd.groupedAllreduce(context, [of(rank), Int32Array.of(rank)], { op: Sum });
      assert.deepEqual(pair, [of(3), Int32Array.of(3)]);
      assert.deepEqual(await hvd.allreduce(context, of(rank), { op: Min }), of(0));
      assert.deepEqual(await hvd.allreduce(context, of(-rank), { op: Max }), of(0));
      if (rank === 2) await turns(5);
      return hvd.join(context);
    });
    assert.deepEqual(last, [2, 2, 2]);
  });

  test('operations that were pending when a rank joined become ready', async () => {
    await runContexts(2, async (context, rank) => {
      if (rank === 1) await turns(5);
      const pending = rank === 0 ? hvd.allreduce(context, of(4), { name: 'x', op: Sum }) : undefined;
      await turns(5);
      const joined = hvd.join(context);
      if (pending !== undefined) assert.deepEqual(await pending, of(4));
      await joined;
    });
  });

  test('all ranks may ask for something and join in one tick', async () => {
    await runContexts(2, async (context, rank) => {
      const sum = hvd.allreduce(context, of(rank + 1), { name: 'x', op: Sum });
      const joined = hvd.join(context);
      assert.deepEqual(await sum, of(3));
      assert.equal(await joined, await hvd.broadcastObject(context, await joined, 0));
    });
  });

  test('a rank that asks for something and joins in one tick brings its own values', async () => {
    await runContexts(2, async (context, rank) => {
      const sum = hvd.allreduce(context, of(rank + 1), { name: 'x', op: Sum });
      if (rank === 1) await turns(4);
      const joined = hvd.join(context);
      assert.deepEqual(await sum, of(3));
      await joined;
    });
  });

  test('a mismatch with what a joined rank had asked for is an error, not a crash', async () => {
    await runContexts(2, async (context, rank) => {
      const sum = hvd.allreduce(context, new Float32Array(rank + 1), { name: 'x' });
      const joined = rank === 0 ? hvd.join(context) : undefined;
      assert.equal((await errorOf(sum)).code, 'ERR_HVD_MISMATCH');
      await (joined ?? hvd.join(context));
    });
  });

  for (const [what, ask] of [
    ['allgather', (c) => hvd.allgather(c, of(1))],
    ['broadcast', (c) => hvd.broadcast(c, of(1), 1)],
    ['alltoall', (c) => hvd.alltoall(c, of(1, 2))],
    ['reducescatter', (c) => hvd.reducescatter(c, of(1, 2))],
    ['allgatherObject', (c) => hvd.allgatherObject(c, 1)],
  ] as [string, (context: Parameters<typeof hvd.join>[0]) => Promise<unknown>][]) {
    test(`${what} fails while a rank has joined; joining afterwards works`, async () => {
      const last = await runContexts(2, async (context, rank) => {
        if (rank === 1) {
          const error = await errorOf(ask(context));
          assert.equal(error.code, 'ERR_HVD_JOIN_UNSUPPORTED');
          assert.match(error.message, new RegExp(`${what}.*rank 0 joined`));
        }
        return hvd.join(context);
      });
      assert.deepEqual(last, [1, 1]);
    });
  }

  test('it can be repeated, and a barrier passes while a rank has joined', async () => {
    await runContexts(2, async (context, rank) => {
      for (let round = 0; round < 5; round++) {
        if (rank !== round % 2) await hvd.barrier(context, { name: `b${round}` });
        await hvd.join(context);
        assert.deepEqual(await hvd.allreduce(context, of(1), { op: Sum }), of(2));
      }
    });
  });

  test('afterwards unnamed operations, sets and prepared ones are counted alike again', async () => {
    await runContexts(
      3,
      async (context, rank) => {
        if (rank !== 1) {
          for (let i = 0; i < 3; i++) await hvd.allreduce(context, of(1));
          assert.equal((await errorOf(hvd.allgather(context, of(1)))).code, 'ERR_HVD_JOIN_UNSUPPORTED');
          const unwanted = [context.addProcessSet(new ProcessSet([0])), prepareAllreduce(context, of(1))];
          for (const each of unwanted) {
            assert.equal((await errorOf(each)).code, 'ERR_HVD_JOIN_UNSUPPORTED');
          }
        }
        await hvd.join(context);
        assert.deepEqual(await hvd.allgather(context, of(rank)), of(0, 1, 2));
        const set = new ProcessSet([0, 1]);
        await context.addProcessSet(set);
        assert.equal(set.id, 1);
        const prepared = await prepareAllreduce(context, of(1), { op: Sum });
        assert.deepEqual(await prepared.run(), of(3));
      },
      { processSets: 'dynamic' },
    );
  });

  test('alone, the last rank to join is this one', async () => {
    assert.deepEqual(await runContexts(1, (context) => hvd.join(context)), [0]);
    await runContexts(1, async (context) => assert.equal(hvd.joinSync(context), 0));
  });

  test('the last rank to join a process set is a global rank', async () => {
    await runContexts(
      3,
      async (context, rank, { sets: [set] }) => {
        if (rank === 0) return;
        if (rank === 2) await turns(3);
        assert.equal(await hvd.join(context, { processSet: set }), 2);
      },
      { processSets: [[1, 2]] },
    );
  });
});
