import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allreduce, barrier } from '../operations/collectives.ts';
import { RanksFailed, runContexts } from './run-contexts.ts';

test('runContexts() runs the body once per rank and returns what each returned', async () => {
  const results = await runContexts(3, async (context, rank) => {
    const sum = await allreduce(context, Float32Array.of(rank));
    return `${rank} of ${context.world.size}: ${sum[0]}`;
  });
  assert.deepEqual(results, ['0 of 3: 1', '1 of 3: 1', '2 of 3: 1']);
});

test('runContexts() rejects with the first failure and shows what every rank was doing', async () => {
  const first = new Error('rank 1 has had enough');
  await assert.rejects(
    runContexts(2, async (context, rank) => {
      await barrier(context, { name: 'start' });
      if (rank === 1) throw first;
      await barrier(context, { name: 'never' });
    }),
    (error: unknown) => {
      assert.ok(error instanceof RanksFailed);
      assert.equal(error.cause, first);
      assert.equal(error.rank, 1);
      assert.match(error.message, /rank 0: running\n(.*\n)*.*barrier "never" of set 0: pending/);
      return true;
    },
  );
});

test('runContexts() ends a run that hangs', async () => {
  const run = runContexts(2, (context, rank) => (rank === 0 ? barrier(context) : new Promise(() => {})), {
    timeoutMs: 50,
  });
  await assert.rejects(run, /did not end within 0.05 s[\s\S]*rank 0: running[\s\S]*rank 1: running/);
});
