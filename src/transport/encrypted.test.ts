// Both transports whose connections between hosts are our own, encrypted: the conformance suite, and somebody on the way who
// reads along and alters bytes.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { errorOf } from '../../test/support/error-of.ts';
import { makeHierarchicalWorld, native, order } from '../../test/support/hierarchical-world.ts';
import { makeClusterWorld } from '../../test/support/portable-cluster-world.ts';
import { type Mischief, Relay } from '../../test/support/relay.ts';
import { describeTransport } from '../../test/support/transport-conformance.ts';
import { batchOf, openGroups, round, runOnAll, submit } from '../../test/support/transport-world.ts';
import { Max } from '../tensor/reduce-op.ts';
import type { AllreduceOperation, Transport, TransportGroup } from './transport.ts';

const deadline = { timeout: 60_000 };
const lack = native.built ? false : native.reason;
const secret = 'nobody may read this';

/** Every rank is on a host of its own, and rank 1 reaches rank 0 through the relay. */
const worlds = {
  tcp: (isEncrypted: boolean, reach?: (addresses: readonly string[]) => Promise<string[]>) =>
    makeHierarchicalWorld({ hostOf: (rank) => rank, isEncrypted, ...(reach && { reach }) }),
  portable: (isEncrypted: boolean, reach?: (addresses: readonly string[]) => Promise<string[]>) =>
    makeClusterWorld({ hostOf: (rank) => rank, isEncrypted, ...(reach && { reach }) }),
};

if (native.built) {
  describeTransport('encrypted tcp', worlds.tcp(true), { order, members: [3], parts: ['operations'] });
  describeTransport(
    'encrypted tcp, two ranks per host,',
    makeHierarchicalWorld({ hostOf: (rank) => rank % 2, isEncrypted: true, hierarchicalAllgather: false }),
    { order, members: [4], parts: ['rounds'] },
  );
}
describeTransport('encrypted portable', worlds.portable(true), {
  members: [3],
  parts: ['operations', 'rounds'],
});

for (const [name, makeWorld] of Object.entries(worlds)) {
  describe(`somebody between the hosts, with ${name}`, { skip: name === 'tcp' && lack }, () => {
    const withRelay = async (
      isEncrypted: boolean,
      body: (groups: TransportGroup[], relay: Relay, transports: readonly Transport[]) => Promise<void>,
    ): Promise<void> => {
      let relay: Relay | undefined;
      const world = await makeWorld(isEncrypted, async ([first]) => {
        relay = await Relay.open(first as string);
        return [relay.address];
      })(2);
      try {
        const groups = await openGroups(world.transports);
        await body(groups, relay as unknown as Relay, world.transports);
      } finally {
        for (const transport of world.transports) transport.close();
        await world.close();
        relay?.close();
      }
    };

    test(
      'reads nothing of what is reduced, agreed on or carried along, unless it is not encrypted',
      deadline,
      async () => {
        for (const isEncrypted of [true, false]) {
          await withRelay(isEncrypted, async (groups, relay) => {
            relay.captured.length = 0;
            for (const bytes of [100, 10_000, 300_000]) {
              await runOnAll(
                groups,
                groups.map(() => maximum(bytes)),
              );
              const seen = Buffer.concat(relay.captured.splice(0));
              assert.ok(seen.length >= bytes);
              assert.equal(seen.includes(secret), !isEncrypted, `${bytes} bytes`);
              // The start of every header of tcp, and a post of portable with its fingerprint.
              if (name === 'tcp') assert.equal(seen.includes('HVDF'), !isEncrypted);
            }
          });
        }
      },
    );

    const tampered = /connection with rank 1 on host1 \(\S+:\d+\).*altered, repeated or left out/;
    // Reset: by the end that still had bytes for the one that has gone.
    const closed =
      /rank 1 on host1 is gone: its connection to rank 0 (was closed by the other side|broke \(E(CONNRESET|PIPE)\))/;
    for (const { title, mischief, bytes, bytesBefore, code, text } of [
      { title: 'flips a bit', mischief: 'flip', code: 'ERR_HVD_TAMPERED', text: tampered },
      { title: 'repeats bytes', mischief: 'repeat', code: 'ERR_HVD_TAMPERED', text: tampered },
      {
        title: 'ends the connection within a record',
        mischief: 'cut',
        code: 'ERR_HVD_PEER_LOST',
        text: closed,
      },
    ].flatMap((each) => [
      { ...each, title: `${each.title} of a small tensor`, bytes: 100, bytesBefore: 0 },
      { ...each, title: `${each.title} of a large tensor`, bytes: 400_000, bytesBefore: 20_000 },
    ])) {
      test(`${title}: the operation ends with an error that names peer and connection`, deadline, () =>
        withRelay(true, async (groups, relay) => {
          const [first, second] = groups as [TransportGroup, TransportGroup];
          // In place; every byte of rank 1 is greater.
          const operation = maximum(bytes, 'lower');
          const [result] = operation.outputs as [Uint8Array];
          const own = Buffer.from(result);
          relay.arm(mischief as Mischief, bytesBefore);
          // A record that is repeated follows one that is right: the next operation meets it.
          if (mischief === 'repeat' && bytesBefore === 0) await runOnAll(groups, [maximum(10), maximum(10)]);
          const other = submit(second, batchOf([round(maximum(bytes))])).catch(() => undefined);
          const error = await errorOf(submit(first, batchOf([round(operation)])));
          assert.equal(error.code, code);
          assert.match(error.message, text);
          assert.equal(error.rank, 1);
          if (bytesBefore === 0) assert.ok(own.equals(result), 'no byte of it has reached the result');
          for (const group of groups) group.close();
          await other;
        }),
      );
    }
  });
}

test('a Node that does not export OpenSSL cannot encrypt, and every rank hears which one', {
  skip: lack,
}, async () => {
  const world = await worlds.tcp(true)(2);
  try {
    // As if only rank 1 lacked it.
    const [, second] = world.transports as unknown as { addon: object }[];
    if (second !== undefined && native.built)
      second.addon = Object.create(native.addon, { encryptionLack: { value: 'EVP_aes_256_gcm' } });
    const error = await errorOf(openGroups(world.transports));
    assert.equal(error.code, 'ERR_HVD_UNSUPPORTED');
    assert.match(error.message, /rank 1: --encrypt needs OpenSSL.*EVP_aes_256_gcm is missing.*portable/);
  } finally {
    for (const transport of world.transports) transport.close();
    await world.close();
  }
});

function maximum(bytes: number, values: 'lower' | 'as sent' = 'as sent'): AllreduceOperation {
  const text = Buffer.from(secret.repeat(Math.ceil(bytes / secret.length))).subarray(0, bytes);
  const array = Uint8Array.from(text, (byte) => (values === 'lower' ? byte - 1 : byte));
  const operation = { kind: 'allreduce', dtype: 'uint8', op: Max, prescale: 1, postscale: 1 } as const;
  return { ...operation, inputs: [array], outputs: [array] };
}
