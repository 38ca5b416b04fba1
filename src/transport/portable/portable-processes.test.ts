import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Rank, withRanks } from '../../../test/support/portable-ranks.ts';

const deadline = { timeout: 60_000 };

describe('the portable transport between processes', () => {
  for (const ranks of [2, 3, 5]) {
    test(`${ranks} ranks give the bits of the reference, blocking and not`, deadline, () =>
      withRanks(ranks, 'compare', async (all) => {
        for (const rank of all) await rank.next('finished');
      }),
    );
  }

  test('a rank that blocks in one group still serves another', deadline, () =>
    withRanks(2, 'twoGroups', async (all) => {
      for (const rank of all) await rank.next('finished');
    }),
  );

  test('waitSync() ends a submitted batch and those before it, which are called back', deadline, () =>
    withRanks(2, 'waitSync', async (all) => {
      for (const rank of all) await rank.next('finished');
    }),
  );

  test('a stalled wait says who is missing, and goes on', deadline, () =>
    withRanks(2, 'stall', async ([waiting, late]) => {
      assert.ok(waiting !== undefined && late !== undefined);
      assert.deepEqual((await waiting.next('stalled')).missing, [1]);
      late.send({ kind: 'go' });
      for (const rank of [waiting, late]) await rank.next('finished');
    }),
  );

  for (const scene of ['endlessSync', 'endless'] as const) {
    test(`all survivors of a killed rank name it and its signal (${scene})`, deadline, () =>
      withRanks(3, scene, async (all) => {
        const [first, victim, last] = all as [Rank, Rank, Rank];
        for (const rank of all) await rank.next('running');
        victim.process.kill('SIGKILL');
        for (const survivor of [first, last]) {
          const { code, blamed, pid, signal } = await survivor.next('failed');
          assert.deepEqual(
            { code, blamed, pid, signal },
            {
              code: 'ERR_HVD_PEER_LOST',
              blamed: 1,
              pid: victim.process.pid,
              signal: 'SIGKILL',
            },
          );
        }
      }),
    );
  }

  test('a stopped rank runs into the deadline, and finds the same error when it wakes', deadline, () =>
    withRanks(2, 'impatient', async (all) => {
      const [waiting, stopped] = all as [Rank, Rank];
      for (const rank of all) await rank.next('running');
      stopped.process.kill('SIGSTOP');
      const failure = await waiting.next('failed');
      assert.equal(failure.code, 'ERR_HVD_TIMEOUT');
      assert.match(failure.message, /rank 0 waited 1 s in allreduce "grad", but rank 1 has not arrived/);
      stopped.process.kill('SIGCONT');
      assert.equal((await stopped.next('failed')).message, failure.message);
    }),
  );
});
