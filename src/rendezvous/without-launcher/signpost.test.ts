// Signposts, with their ranks in one process: where rank 0 is, in both places it may be.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { type TestContext, test } from 'node:test';
import { HorovodError } from '../../errors.ts';
import { formatAddress, parseAddresses, withoutLoopback } from '../../net/addresses.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { TcpStoreServer } from '../store/tcp-store-server.ts';
import type { Meeting, MeetingPlace } from './meet.ts';
import { meetBySignpost, type Signpost } from './signpost.ts';

const secret = JobSecret.generate();
const timeoutMs = 20_000;

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return port;
}

/** Those who are not rank 0 look for it at `expected`, where it may not be. */
function placeOf(rank: number, size: number, port: number, expected: number): MeetingPlace {
  return {
    secret,
    own: { rank, size, job: undefined, host: 'a', machine: 'a', pid: rank },
    serves: rank === 0 ? 'yes' : 'no',
    listenOn: 'loopback',
    ports: [port],
    candidates: [{ host: '127.0.0.1', port: expected }],
    source: 'a test',
    advice: 'Read the test.',
  };
}

async function meetAll(
  t: TestContext,
  roles: readonly Signpost['role'][],
  rankZeroIsExpected: boolean,
): Promise<Meeting[]> {
  const [port, nowhere, post] = [await freePort(), await freePort(), await freePort()];
  const signpost = { ports: [post], addresses: [{ host: '127.0.0.1', port: post }] };
  const meetings = await Promise.all(
    roles.map((role, rank) => {
      const place = placeOf(rank, roles.length, port, rankZeroIsExpected ? port : nowhere);
      return meetBySignpost(place, { role, ...signpost }, { timeoutMs });
    }),
  );
  for (const { store } of meetings) t.after(() => store.close());
  return meetings;
}

test('rank 0 is elsewhere: it tells the one that listens, and that one its neighbours', async (t) => {
  const meetings = await meetAll(t, ['announce', 'keep', 'ask', 'ask'], false);
  assert.deepEqual(
    meetings.map(({ rank }) => rank),
    [0, 1, 2, 3],
  );
  assert.equal(new Set(meetings.map(({ jobId }) => jobId)).size, 1);
});

test('rank 0 is where it is expected: nobody keeps a signpost, and nobody needs one', async (t) => {
  const meetings = await meetAll(t, ['announce', 'ask'], true);
  assert.deepEqual(
    meetings.map(({ rank }) => rank),
    [0, 1],
  );
});

const hasOtherAddresses = Object.values(networkInterfaces()).some((list) =>
  list?.some(({ internal }) => !internal),
);

test('rank 0 tells ranks of other machines no loopback address', {
  skip: hasOtherAddresses ? false : 'this machine has no address but loopback',
}, async (t) => {
  const [port, post] = [await freePort(), await freePort()];
  const keeper = await TcpStoreServer.start({
    secret,
    jobId: 'signpost',
    ranks: 2,
    listenOn: 'loopback',
    port: post,
  });
  t.after(() => keeper.close());
  const place: MeetingPlace = { ...placeOf(0, 2, port, port), listenOn: 'all' };
  const over = new AbortController();
  const signpost = {
    role: 'announce',
    ports: [post],
    addresses: [{ host: '127.0.0.1', port: post }],
  } as const;
  const meeting = meetBySignpost(place, signpost, { timeoutMs, signal: over.signal });
  const told = parseAddresses(await keeper.store.get('rank 0', { timeoutMs })) ?? [];
  assert.ok(told.length > 0);
  assert.deepEqual(withoutLoopback(told.map(formatAddress)), told.map(formatAddress));
  over.abort();
  await assert.rejects(meeting);
});

test('without rank 0 all give up at the deadline', async () => {
  const [port, post] = [await freePort(), await freePort()];
  const signpost = { ports: [post], addresses: [{ host: '127.0.0.1', port: post }] };
  const errors = await Promise.all(
    (['keep', 'ask'] as const).map((role, place) =>
      meetBySignpost(placeOf(place + 1, 3, port, port), { role, ...signpost }, { timeoutMs: 300 }).then(
        () => assert.fail('there is no rank 0'),
        (error: unknown) => error,
      ),
    ),
  );
  for (const error of errors) {
    assert.ok(HorovodError.is(error), String(error));
    assert.equal(error.code, 'ERR_HVD_TIMEOUT');
    assert.match(error.message, /rank 0/);
  }
});
