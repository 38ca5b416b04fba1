import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { describeTransport } from '../../../test/support/transport-conformance.ts';
import {
  batchOf,
  round,
  submit,
  type TransportWorld,
  withWorld,
} from '../../../test/support/transport-world.ts';
import { HorovodError } from '../../errors.ts';
import { MemoryHub } from './memory-transport.ts';

async function makeWorld(ranks: number): Promise<TransportWorld> {
  const hub = new MemoryHub(ranks);
  return { transports: Array.from({ length: ranks }, (_, rank) => hub.transport(rank)), close() {} };
}

describeTransport('memory', makeWorld);

const barrier = () => batchOf([round({ kind: 'barrier' })]);

describe('a hub of one rank', () => {
  test('can block, and runs every batch inside the call', () =>
    withWorld(makeWorld, 1, async ([group], [transport]) => {
      assert.equal(transport?.canBlock, true);
      assert.equal(group?.runSync(barrier()), 'done');
      assert.equal(
        group?.submit(barrier(), () => assert.fail('called back as well')),
        'done',
      );
    }));
});

describe('a hub of several ranks', () => {
  test('a Sync form that would have to wait is rejected, and leaves no trace', () =>
    withWorld(makeWorld, 2, async ([a, b], [transport]) => {
      assert.equal(transport?.canBlock, false);
      assert.throws(() => a?.runSync(barrier()), { code: 'ERR_HVD_WOULD_BLOCK' });
      assert.deepEqual(b?.missing(), [0, 1]);
      assert.ok(a !== undefined && b !== undefined);
      const first = submit(b, barrier());
      assert.equal(a.runSync(barrier()), 'done');
      assert.equal(await first, 'done');
    }));

  test('waitSync() gives the result of a batch that is over, instead of its callback', () =>
    withWorld(makeWorld, 2, async ([a, b]) => {
      const batch = barrier();
      assert.equal(
        a?.submit(batch, () => assert.fail('called back as well')),
        undefined,
      );
      assert.throws(() => a?.waitSync(batch), { code: 'ERR_HVD_WOULD_BLOCK' });
      assert.equal(
        b?.submit(barrier(), () => {}),
        'done',
      );
      assert.equal(a?.waitSync(batch), 'done');
      await new Promise(setImmediate);
    }));

  test('a failure of the hub ends every wait, now and later, with the first error', () => {
    const hub = new MemoryHub(2);
    const transports = [hub.transport(0), hub.transport(1)];
    return withWorld(
      async () => ({ transports, close() {} }),
      2,
      async (groups) => {
        const waits = groups.map((group, index) =>
          submit(group, batchOf([round({ kind: 'barrier' }, index)], { passive: true })),
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
