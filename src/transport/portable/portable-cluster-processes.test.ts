import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Rank, withHosts } from '../../../test/support/portable-ranks.ts';

const deadline = { timeout: 60_000 };

describe('the portable transport between processes of several hosts', () => {
  for (const hosts of [
    [0, 1],
    [0, 1, 0, 1],
    [0, 0, 0, 1, 2],
  ]) {
    test(
      `ranks on the hosts ${hosts.join(' ')} give the results of the reference, blocking and not`,
      deadline,
      () =>
        withHosts({ hosts, scene: 'compare' }, async (all) => {
          for (const rank of all) await rank.next('finished');
          // Neither a connection nor a listener keeps a process alive.
          for (const rank of all) await rank.ended;
        }),
    );
  }

  test('a rank that blocks in one group still serves another', deadline, () =>
    withHosts({ hosts: [0, 1], scene: 'twoGroups' }, async (all) => {
      for (const rank of all) await rank.next('finished');
    }),
  );

  test('waitSync() ends a submitted batch and those before it, which are called back', deadline, () =>
    withHosts({ hosts: [0, 1], scene: 'waitSync' }, async (all) => {
      for (const rank of all) await rank.next('finished');
    }),
  );

  test('a stalled wait says who is missing, and goes on', deadline, () =>
    withHosts({ hosts: [0, 1], scene: 'stall' }, async ([waiting, late]) => {
      assert.ok(waiting !== undefined && late !== undefined);
      assert.deepEqual((await waiting.next('stalled')).missing, [1]);
      late.send({ kind: 'go' });
      for (const rank of [waiting, late]) await rank.next('finished');
    }),
  );

  for (const scene of ['endlessSync', 'endless'] as const) {
    test(`all survivors of a killed rank name it and its signal (${scene})`, deadline, () =>
      withHosts({ hosts: [0, 1, 0, 2], scene }, async (all) => {
        const [first, victim, ...others] = all as [Rank, Rank, ...Rank[]];
        for (const rank of all) await rank.next('running');
        victim.process.kill('SIGKILL');
        for (const survivor of [first, ...others]) {
          const { code, blamed, signal } = await survivor.next('failed');
          assert.deepEqual(
            { code, blamed, signal },
            { code: 'ERR_HVD_PEER_LOST', blamed: 1, signal: 'SIGKILL' },
          );
        }
      }),
    );
  }

  test('where nobody watches, the connections tell that a rank is gone, and on which host', deadline, () =>
    withHosts({ hosts: [0, 1, 0], scene: 'endlessSync', isWatched: false }, async (all) => {
      const [first, victim, last] = all as [Rank, Rank, Rank];
      for (const rank of all) await rank.next('running');
      const killedAt = performance.now();
      victim.process.kill('SIGKILL');
      for (const survivor of [first, last]) {
        const { code, blamed, message } = await survivor.next('failed');
        assert.deepEqual({ code, blamed }, { code: 'ERR_HVD_PEER_LOST', blamed: 1 });
        assert.match(message, /rank 1 on host1 is gone: its connection to rank \d/);
      }
      assert.ok(performance.now() - killedAt < 10_000);
    }),
  );

  test('a stopped rank runs into the deadline', deadline, () =>
    withHosts({ hosts: [0, 1], scene: 'impatient' }, async (all) => {
      const [waiting, stopped] = all as [Rank, Rank];
      for (const rank of all) await rank.next('running');
      stopped.process.kill('SIGSTOP');
      const failure = await waiting.next('failed');
      assert.equal(failure.code, 'ERR_HVD_TIMEOUT');
      assert.match(failure.message, /rank 0 waited 1 s in allreduce "grad", but rank 1 has not arrived/);
    }),
  );
});
