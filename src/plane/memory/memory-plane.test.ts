import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { HorovodError } from '../../errors.ts';
import { describePlane } from '../../testing/plane-conformance.ts';
import { jobOf, type PlaneWorld, round, submit, withWorld } from '../../testing/plane-world.ts';
import { MemoryHub } from './memory-plane.ts';

async function makeWorld(ranks: number): Promise<PlaneWorld> {
  const hub = new MemoryHub(ranks);
  return { planes: Array.from({ length: ranks }, (_, rank) => hub.plane(rank)), close() {} };
}

describePlane('memory', makeWorld);

const barrier = () => jobOf([round({ kind: 'barrier' })]);

describe('a hub of one rank', () => {
  test('can block, and runs every job inside the call', () =>
    withWorld(makeWorld, 1, async ([group], [plane]) => {
      assert.equal(plane?.canBlock, true);
      assert.equal(group?.runSync(barrier()), 'done');
      assert.equal(
        group?.submit(barrier(), () => assert.fail('called back as well')),
        'done',
      );
    }));
});

describe('a hub of several ranks', () => {
  test('a Sync form that would have to wait is refused, and leaves no trace', () =>
    withWorld(makeWorld, 2, async ([a, b], [plane]) => {
      assert.equal(plane?.canBlock, false);
      assert.throws(() => a?.runSync(barrier()), { code: 'ERR_HVD_WOULD_BLOCK' });
      assert.deepEqual(b?.missing(), [0, 1]);
      assert.ok(a !== undefined && b !== undefined);
      const first = submit(b, barrier());
      assert.equal(a.runSync(barrier()), 'done');
      assert.equal(await first, 'done');
    }));

  test('waitSync() gives the result of a job that is over, instead of its callback', () =>
    withWorld(makeWorld, 2, async ([a, b]) => {
      const job = barrier();
      assert.equal(
        a?.submit(job, () => assert.fail('called back as well')),
        undefined,
      );
      assert.throws(() => a?.waitSync(job), { code: 'ERR_HVD_WOULD_BLOCK' });
      assert.equal(
        b?.submit(barrier(), () => {}),
        'done',
      );
      assert.equal(a?.waitSync(job), 'done');
      await new Promise(setImmediate);
    }));

  test('a failure of the hub ends every wait, now and later, with the first error', () => {
    const hub = new MemoryHub(2);
    const planes = [hub.plane(0), hub.plane(1)];
    return withWorld(
      async () => ({ planes, close() {} }),
      2,
      async (groups) => {
        const waits = groups.map((group, index) =>
          submit(group, jobOf([round({ kind: 'barrier' }, index)], { passive: true })),
        );
        const lost = new HorovodError('ERR_HVD_PEER_LOST', 'rank 1 is gone', { rank: 1 });
        hub.fail(lost);
        hub.fail(new HorovodError('ERR_HVD_TIMEOUT', 'aftermath'));
        for (const wait of waits) await assert.rejects(wait, lost);
        for (const group of groups) {
          await assert.rejects(submit(group, barrier()), lost);
          assert.throws(() => group.runSync(barrier()), lost);
        }
      },
    );
  });
});
