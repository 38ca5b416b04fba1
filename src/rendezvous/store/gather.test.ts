import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HorovodError } from '../../errors.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { gather } from './gather.ts';
import { MemoryStore } from './memory-store.ts';
import { TcpStore } from './tcp-store.ts';
import { TcpStoreServer } from './tcp-store-server.ts';

const identity = { secret: JobSecret.generate(), jobId: 'job' };

async function gatherAll(
  texts: readonly string[],
  members: readonly number[],
): Promise<(readonly string[])[]> {
  const server = await TcpStoreServer.start({ ...identity, ranks: 1000 });
  const stores = await Promise.all(
    members.map((rank) => TcpStore.connect({ ...identity, address: server.address, rank })),
  );
  try {
    return await Promise.all(
      stores.map((store, place) =>
        gather(store, 'key', texts[place] as string, {
          members,
          rank: members[place] as number,
          timeoutMs: 20_000,
        }),
      ),
    );
  } finally {
    for (const store of stores) store.close();
    await server.close();
  }
}

test('every member gets the texts of all, in the order of members', async () => {
  for (const all of await gatherAll(['c', '', '1 "€\\'], [7, 2, 5]))
    assert.deepEqual(all, ['c', '', '1 "€\\']);
});

test('together they may be longer than a value of the store', async () => {
  const texts = ['"', '\\', '\u0001', '😀', 'x'].map((letter) => letter.repeat(9_000));
  for (const all of await gatherAll(texts, [0, 1, 2, 3, 4])) assert.deepEqual(all, texts);
});

test('who collects says who has not come, before the others have given up', async () => {
  const store = new MemoryStore();
  const wait = { members: [0, 1, 2, 3], timeoutMs: 100 };
  let hasWaited = false;
  const other = gather(store, 'key', '', { ...wait, rank: 1 }).catch((error: unknown) => {
    hasWaited = true;
    return error;
  });
  await assert.rejects(gather(store, 'key', '', { ...wait, rank: 0 }), (error: unknown) => {
    assert.ok(HorovodError.is(error));
    assert.equal(error.code, 'ERR_HVD_TIMEOUT');
    assert.equal(error.rank, 2);
    assert.match(error.message, /rank 0 waited 0.1 s in init\(\) for ranks 2, 3\. Has every rank/);
    return true;
  });
  assert.equal(hasWaited, false);
  store.close();
  await other;
});
