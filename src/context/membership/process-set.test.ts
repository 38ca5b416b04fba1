import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { errorOf } from '../../../test/support/error-of.ts';
import { HorovodError } from '../../errors.ts';
import * as hvd from '../../operations/collectives.ts';
import { ProcessSet } from '../../operations/process-set.ts';
import { Average, Sum } from '../../tensor/reduce-op.ts';
import { type RanksFailed, runContexts } from '../../testing/run-contexts.ts';

const of = (...values: number[]) => Float32Array.from(values);

describe('a ProcessSet on its own', () => {
  test('sorts its ranks and knows nothing else', () => {
    const set = new ProcessSet([3, 0, 2]);
    assert.deepEqual(set.ranks, [0, 2, 3]);
    assert.deepEqual([set.id, set.rank(), set.size(), set.included()], [null, null, null, null]);
    assert.equal(String(set), 'ProcessSet(id=null, ranks=[0, 2, 3])');
  });

  for (const ranks of [[-1], [0.5], ['0'], [NaN], 'all', null, { length: 1 }]) {
    test(`refuses ${JSON.stringify(ranks)}`, () => {
      assert.throws(() => new ProcessSet(ranks as number[]), {
        code: 'ERR_HVD_INVALID_ARGUMENT',
        message: /takes a list of ranks/,
      });
    });
  }

  test('with a function, has no ranks before it is registered', () => {
    const set = new ProcessSet(() => assert.fail('it was called'));
    assert.deepEqual([set.id, set.ranks], [null, []]);
  });

  test('rejects a rank that is given twice', () => {
    assert.throws(() => new ProcessSet([1, 0, 1]), { message: /rank 1 is in the ProcessSet twice/ });
  });
});

describe('static process sets', () => {
  test('are numbered in order, know who is in them, and reduce among their members', async () => {
    await runContexts(
      4,
      async (context, rank, { sets, globalSet }) => {
        assert.deepEqual(
          [globalSet, ...sets].map(({ id, ranks }) => [id, ranks]),
          [
            [0, [0, 1, 2, 3]],
            [1, [0, 2]],
            [2, [1, 3]],
          ],
        );
        const [even, odd] = sets as [ProcessSet, ProcessSet];
        const [own, other] = rank % 2 === 0 ? [even, odd] : [odd, even];
        assert.equal(own.rank(), Math.floor(rank / 2));
        assert.deepEqual([own.size(), own.included(), other.included()], [2, true, false]);
        assert.throws(() => other.rank(), { code: 'ERR_HVD_PROCESS_SET', message: /is not part of/ });

        const average = await hvd.allreduce(context, of(rank), { op: Average, processSet: own });
        assert.deepEqual(average, of(1 + (rank % 2)));
        const gathered = await hvd.allgather(context, of(rank), { processSet: own });
        assert.deepEqual(gathered, rank % 2 === 0 ? of(0, 2) : of(1, 3));
        const objects = await hvd.allgatherObject(context, `r${rank}`, { processSet: own });
        assert.deepEqual(objects, rank % 2 === 0 ? ['r0', 'r2'] : ['r1', 'r3']);
        const rooted = await hvd.broadcast(context, of(rank), 2 + (rank % 2), { processSet: own });
        assert.deepEqual(rooted, of(2 + (rank % 2)));
        const scattered = await hvd.reducescatter(context, of(rank, 10 * rank), {
          op: Sum,
          processSet: own,
        });
        assert.deepEqual(scattered, of((rank % 2 === 0 ? 2 : 4) * (rank < 2 ? 1 : 10)));
        const { output } = await hvd.alltoall(context, of(rank, rank + 10), { processSet: own });
        const [low, high] = [rank % 2, 2 + (rank % 2)];
        assert.deepEqual(output, rank < 2 ? of(low, high) : of(low + 10, high + 10));
      },
      {
        processSets: [
          [2, 0],
          [1, 3],
        ],
      },
    );
  });

  test('a rank outside gets an error at the call, and the others do not notice', async () => {
    await runContexts(
      3,
      async (context, rank, { sets: [set] }) => {
        if (rank === 2) {
          for (const promise of [
            hvd.allreduce(context, of(1), { processSet: set }),
            hvd.allgather(context, of(1), { processSet: set }),
            hvd.broadcast(context, of(1), 0, { processSet: set }),
            hvd.barrier(context, { processSet: set }),
            hvd.join(context, { processSet: set }),
            hvd.broadcastObject(context, 1, 0, { processSet: set }),
          ]) {
            const error = await errorOf(promise);
            assert.equal(error.code, 'ERR_HVD_PROCESS_SET');
            assert.equal(error.rank, 2);
            assert.match(error.message, /rank 2 is not a member of ProcessSet\(id=1, ranks=\[0, 1\]\)/);
          }
        } else {
          assert.deepEqual(await hvd.allreduce(context, of(1), { op: Sum, processSet: set }), of(2));
        }
        await hvd.barrier(context);
      },
      { processSets: [[0, 1]] },
    );
  });

  test('a root outside the set is refused', async () => {
    await runContexts(
      2,
      async (context, rank, { sets: [set] }) => {
        if (rank === 0) {
          const error = await errorOf(hvd.broadcast(context, of(1), 1, { processSet: set }));
          assert.equal(error.code, 'ERR_HVD_INVALID_ARGUMENT');
          assert.match(error.message, /root rank 1 is not one of the ranks of the process set, 0/);
        }
        await hvd.barrier(context);
      },
      { processSets: [[0]] },
    );
  });

  for (const [what, processSets, words] of [
    ['a duplicate', [[0, 1], [0], [1, 0]], /entry 2 of processSets is a duplicate/],
    ['the set of all ranks', [[0, 1, 2]], /there is a process set of ranks 0,1,2 already/],
    ['a rank that does not exist', [[0, 3]], /names rank 3, and there are 3 ranks/],
    ['an empty set', [[]], /needs at least one rank/],
  ] as [string, number[][], RegExp][]) {
    test(`init refuses ${what}`, async () => {
      await assert.rejects(
        runContexts(3, () => {}, { processSets }),
        ({ cause }: RanksFailed) => {
          assert.ok(HorovodError.is(cause));
          assert.equal(cause.code, 'ERR_HVD_PROCESS_SET');
          assert.match(cause.message, words);
          return true;
        },
      );
    });
  }
});

describe('dynamic process sets', () => {
  test('are added and removed by all ranks together; numbers are used again', async () => {
    await runContexts(
      3,
      async (context, rank, { globalSet }) => {
        const first = new ProcessSet([0, 1]);
        const second = new ProcessSet([2, 1]);
        await context.addProcessSet(first);
        await context.addProcessSet(second);
        assert.deepEqual([first.id, second.id], [1, 2]);
        if (rank !== 0) {
          assert.deepEqual(await hvd.allreduce(context, of(rank), { op: Sum, processSet: second }), of(3));
        }
        assert.equal(await context.removeProcessSet(first), true);
        assert.deepEqual([first.id, first.size(), second.id], [null, null, 2]);
        assert.equal(await context.removeProcessSet(first), false);
        assert.equal(await context.removeProcessSet(globalSet), false);
        const third = new ProcessSet([0]);
        await context.addProcessSet(third);
        assert.equal(third.id, 1);
        await context.addProcessSet(first);
        assert.equal(first.id, 3);
        const error = await errorOf(hvd.allreduce(context, of(1), { processSet: new ProcessSet([0, 1]) }));
        assert.match(error.message, /is not registered, or has been removed/);
        await hvd.barrier(context);
      },
      { processSets: 'dynamic' },
    );
  });

  test('duplicates are refused, in any order of ranks and with the set of all', async () => {
    await runContexts(
      2,
      async (context) => {
        await context.addProcessSet(new ProcessSet([0]));
        for (const ranks of [[0], [1, 0]]) {
          const error = await errorOf(context.addProcessSet(new ProcessSet(ranks)));
          assert.equal(error.code, 'ERR_HVD_PROCESS_SET');
          assert.match(error.message, /there is a process set of ranks .* already/);
        }
        await hvd.barrier(context);
      },
      { processSets: 'dynamic' },
    );
  });

  test('a function chooses the ranks, which may be those of another set', async () => {
    await runContexts(
      3,
      async (context, rank) => {
        const [all, last] = [
          new ProcessSet(({ hostOf }) => [...hostOf.keys()]),
          new ProcessSet(({ size }) => [size - 1]),
        ];
        await context.addProcessSet(all);
        await context.addProcessSet(last);
        assert.deepEqual([all.ranks, all.id, last.ranks, last.id], [[0, 1, 2], 1, [2], 2]);
        assert.deepEqual(await hvd.allreduce(context, of(rank), { op: Sum, processSet: all }), of(3));
        const wrong = await errorOf(context.addProcessSet(new ProcessSet(() => 'all' as never)));
        assert.match(wrong.message, /or a function that returns one, not/);
        const none = await errorOf(context.addProcessSet(new ProcessSet(() => [])));
        assert.match(none.message, /needs at least one rank/);
      },
      { processSets: 'dynamic' },
    );
  });

  test('ranks that add different sets get the same error, and go on', async () => {
    const messages = await runContexts(
      2,
      async (context, rank) => {
        const error = await errorOf(context.addProcessSet(new ProcessSet([rank])));
        assert.equal(error.code, 'ERR_HVD_MISMATCH');
        assert.match(error.message, /mismatched process sets: rank 0 has add 0, but rank 1 has add 1/);
        const set = new ProcessSet([1]);
        await context.addProcessSet(set);
        assert.equal(set.id, 1);
        return error.message;
      },
      { processSets: 'dynamic' },
    );
    assert.equal(messages[0], messages[1]);
  });

  test('what is in flight in a set that is removed ends with an error', async () => {
    await runContexts(
      3,
      async (context, rank) => {
        const set = new ProcessSet([0, 1]);
        await context.addProcessSet(set);
        const pending = rank === 0 ? errorOf(hvd.barrier(context, { processSet: set })) : undefined;
        assert.equal(await context.removeProcessSet(set), true);
        if (pending !== undefined) {
          const error = await pending;
          assert.equal(error.code, 'ERR_HVD_PROCESS_SET');
          assert.match(error.message, /the process set of ranks 0, 1 has been removed/);
        }
        await hvd.barrier(context);
      },
      { processSets: 'dynamic' },
    );
  });

  test('without dynamic sets adding and removing is refused', async () => {
    await runContexts(
      2,
      async (context, _, { sets: [set] }) => {
        const added = await errorOf(context.addProcessSet(new ProcessSet([1])));
        assert.match(added.message, /init\(\{ processSets: 'dynamic' \}\)/);
        const removed = await errorOf(context.removeProcessSet(set as ProcessSet));
        assert.equal(removed.code, 'ERR_HVD_PROCESS_SET');
        await hvd.barrier(context);
      },
      { processSets: [[0]] },
    );
  });

  test('operations in sets may overlap with a change of sets', async () => {
    await runContexts(
      3,
      async (context, rank) => {
        const sums = Array.from({ length: 10 }, (_, i) =>
          hvd.allreduce(context, of(i), { op: Sum, name: `n${rank === 1 ? 9 - i : i}` }),
        );
        const set = new ProcessSet([0, 2]);
        await context.addProcessSet(set);
        await Promise.all(sums);
        if (rank !== 1) await hvd.barrier(context, { processSet: set });
      },
      { processSets: 'dynamic' },
    );
  });
});
