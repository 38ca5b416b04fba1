// The store, with somebody between a rank and the launcher who passes the handshake on and then changes what follows.

import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { altered, type Change, type Direction, startDecoy } from '../../../test/support/decoy.ts';
import { errorOf } from '../../../test/support/error-of.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { TcpStore } from './tcp-store.ts';
import { TcpStoreServer } from './tcp-store-server.ts';

const identity = { secret: JobSecret.generate(), jobId: 'job-1' };

/** A rank whose frames in one direction are changed from the second on; the first passes. */
async function attacked(t: TestContext, direction: Direction, change: (frame: Buffer) => Change) {
  const server = await TcpStoreServer.start({ ...identity, ranks: 2 });
  t.after(() => server.close());
  const address = await startDecoy(t, server.address, {
    change: (where, frame, place) => (where === direction && place > 0 ? change(frame) : [frame]),
  });
  const store = await TcpStore.connect({ ...identity, rank: 1, address, timeoutMs: 20_000 });
  t.after(() => store.close());
  await store.set('before', 'the attack');
  return { server, store, address };
}

const attacks: readonly [string, (frame: Buffer) => Change, RegExp][] = [
  ['altered', (frame) => [altered(frame)], /sent frame 1 with a wrong authentication code/],
  ['repeated', (frame) => [frame, frame], /sent frame 1 for a second time/],
  ['reflected', () => 'back', /sent frame 1 with a wrong authentication code/],
];

describe('what the launcher sends to a rank', () => {
  for (const [what, change, text] of attacks.filter(([each]) => each !== 'reflected')) {
    test(`is not taken if it was ${what}`, async (t) => {
      const { store, address } = await attacked(t, 'to dialer', change);
      // The answer may still arrive before its repetition does.
      await store.get('before', { timeoutMs: 20_000 }).catch(() => undefined);
      const error = await errorOf(store.get('never', { timeoutMs: 20_000 }));
      assert.equal(error.code, 'ERR_HVD_TAMPERED');
      assert.match(error.message, text);
      assert.match(error.message, new RegExp(`the launcher at ${address} .*tampering`));
      assert.doesNotMatch(error.message, new RegExp(identity.secret.revealForEnvironment()));
    });
  }

  test('is a lost connection if it was cut off in the middle', async (t) => {
    const { store } = await attacked(t, 'to dialer', () => 'cut');
    const error = await errorOf(store.get('before', { timeoutMs: 20_000 }));
    assert.equal(error.code, 'ERR_HVD_RENDEZVOUS');
    assert.match(error.message, /lost its connection to the launcher .* in the middle of a message/);
  });
});

describe('what a rank sends to the launcher', () => {
  for (const [what, change, text] of attacks.filter(([each]) => each !== 'reflected')) {
    test(`is not taken if it was ${what}, and ends the start of all ranks`, async (t) => {
      const { server, store } = await attacked(t, 'to listener', change);
      const others = errorOf(server.store.get('never', { timeoutMs: 20_000 }));
      await store.set('key', 'value', { timeoutMs: 20_000 }).catch(() => undefined);
      const error = await others;
      assert.equal(error.code, 'ERR_HVD_TAMPERED');
      assert.match(error.message, text);
      assert.match(error.message, /the client 1 of the store, at 127\.0\.0\.1:\d+, sent/);
    });
  }

  test('is not an answer to that rank: sent back to it, it ends the connection', async (t) => {
    const [, change, text] = attacks[2] as (typeof attacks)[number];
    const { store } = await attacked(t, 'to listener', change);
    const error = await errorOf(store.set('key', 'value', { timeoutMs: 20_000 }));
    assert.equal(error.code, 'ERR_HVD_TAMPERED');
    assert.match(error.message, text);
  });

  test('is no goodbye if the connection was cut off in the middle', async (t) => {
    let left: boolean | undefined;
    const gone = new Promise<void>((resolve) => {
      void TcpStoreServer.start({
        ...identity,
        ranks: 2,
        onMemberGone: (_, hasLeft) => {
          left = hasLeft;
          resolve();
        },
      }).then(async (server) => {
        t.after(() => server.close());
        const address = await startDecoy(t, server.address, { change: () => 'cut' });
        const store = await TcpStore.connect({ ...identity, rank: 1, address, timeoutMs: 20_000 });
        store.close();
      });
    });
    await gone;
    assert.equal(left, false);
  });
});
