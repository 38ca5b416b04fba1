// Jobs without launcher, several processes played in one: who comes, who is rejected, who is lost.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { patiently } from '../../../test/support/patiently.ts';
import { HorovodError } from '../../errors.ts';
import { formatAddress } from '../../net/addresses.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { TcpStore } from '../store/tcp-store.ts';
import { type Arrival, arrivalKey, notedKey } from './arrival.ts';
import { gatheringJob } from './job-server.ts';
import { type Meeting, type MeetingPlace, meet } from './meet.ts';

const secret = JobSecret.generate();
const timeoutMs = 20_000;

/** A free one. Another program could take it before us; then the test says so. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return port;
}

function placeOf(port: number, arrival: Partial<Arrival>, serves: MeetingPlace['serves']): MeetingPlace {
  return {
    secret,
    own: { rank: undefined, size: 2, job: undefined, host: 'a', machine: 'a', pid: 1, ...arrival },
    serves,
    listenOn: 'loopback',
    ports: [port],
    candidates: [{ host: '127.0.0.1', port }],
    source: 'a test',
    advice: 'Read the test.',
  };
}

function closing(t: TestContext, meeting: Promise<Meeting>): Promise<Meeting> {
  return meeting.then((met) => {
    t.after(() => met.store.close());
    return met;
  });
}

async function failure(promise: Promise<unknown>): Promise<HorovodError> {
  const error: unknown = await promise.then(
    () => assert.fail('it did not fail'),
    (reason) => reason,
  );
  assert.ok(HorovodError.is(error), String(error));
  return error;
}

/** Somebody who knows the secret, and has not announced itself yet. */
function visit(port: number, ticket: number): Promise<TcpStore> {
  return TcpStore.connect({
    secret,
    jobId: gatheringJob,
    rank: ticket,
    address: formatAddress({ host: '127.0.0.1', port }),
    timeoutMs,
    mayComeLater: true,
  });
}

/** A process that comes and is noted, but is no part of a test's meet(). */
async function comeByHand(port: number, arrival: Arrival): Promise<TcpStore> {
  const ticket = 1000 + arrival.pid;
  const store = await visit(port, ticket);
  await store.set(arrivalKey(ticket), JSON.stringify(arrival));
  await store.get(notedKey(ticket), { timeoutMs });
  return store;
}

describe('processes that meet at an address', () => {
  test('are numbered host by host, and share a store and a job of their own', async (t) => {
    const port = await freePort();
    const comers = ['b', 'a', 'b', 'a'].map((host, pid) => ({ host, machine: host, pid, size: 4 }));
    const meetings = await Promise.all(
      comers.map((comer) => closing(t, meet(placeOf(port, comer, 'if first'), { timeoutMs }))),
    );
    assert.deepEqual(meetings.map(({ rank }) => rank).sort(), [0, 1, 2, 3]);
    const onA = [meetings[1]?.rank as number, meetings[3]?.rank as number];
    assert.equal(Math.abs((onA[0] as number) - (onA[1] as number)), 1);
    assert.equal(new Set(meetings.map(({ jobId }) => jobId)).size, 1);
    await Promise.all(meetings.map(({ store, rank }) => store.set(`from ${rank}`, `${rank}`)));
    assert.equal(await meetings[0]?.store.get('from 3', { timeoutMs }), '3');
  });

  test('keep the ranks they were given, whoever comes first', async (t) => {
    const port = await freePort();
    const ranks = [2, 0, 1].map((rank) =>
      closing(t, meet(placeOf(port, { rank, size: 3 }, rank === 0 ? 'yes' : 'no'), { timeoutMs })),
    );
    assert.deepEqual(
      (await Promise.all(ranks)).map(({ rank }) => rank),
      [2, 0, 1],
    );
  });

  test('one job after another meets at the same address, each with a name of its own', async (t) => {
    const port = await freePort();
    const jobs = new Set<string>();
    for (let round = 0; round < 3; round++) {
      const both = await Promise.all(
        [0, 1].map((rank) => meet(placeOf(port, { rank }, rank === 0 ? 'yes' : 'no'), { timeoutMs })),
      );
      jobs.add((both[0] as Meeting).jobId);
      // The others go first, as often as not: the next job comes to the door of the last.
      for (const { store } of round === 1 ? both : both.toReversed()) store.close();
    }
    assert.equal(jobs.size, 3);
    t.diagnostic([...jobs].join(' '));
  });

  test('a job of horovodrun --mpi has the id that horovodrun knows', async (t) => {
    const port = await freePort();
    const given = { jobId: '0123456789abcdef' };
    const both = await Promise.all(
      [0, 1].map((rank) =>
        closing(t, meet({ ...placeOf(port, { rank }, rank === 0 ? 'yes' : 'no'), ...given }, { timeoutMs })),
      ),
    );
    assert.deepEqual(
      both.map(({ jobId }) => jobId),
      [given.jobId, given.jobId],
    );
  });

  test('a process that comes to a full job says so, and waits for its end', async (t) => {
    const port = await freePort();
    const first = await Promise.all(
      [0, 1].map((rank) =>
        closing(t, meet(placeOf(port, { rank }, rank === 0 ? 'yes' : 'no'), { timeoutMs })),
      ),
    );
    await patiently(async (visitMs) => {
      const error = await failure(meet(placeOf(port, { rank: 1, pid: 7 }, 'no'), { timeoutMs: visitMs }));
      assert.equal(error.code, 'ERR_HVD_RENDEZVOUS');
      assert.match(error.message, /rank 1 was rejected \(a test\): The job of rank 0 .* has all its 2 ranks/);
    });
    const second = [0, 1].map((rank) =>
      closing(t, meet(placeOf(port, { rank, pid: 8 }, rank === 0 ? 'yes' : 'no'), { timeoutMs })),
    );
    for (const { store } of first) store.close();
    assert.deepEqual(
      (await Promise.all(second)).map(({ rank }) => rank),
      [0, 1],
    );
  });

  test('who does not fit is rejected at once with the difference; the job goes on', async (t) => {
    const port = await freePort();
    const serving = closing(t, meet(placeOf(port, { rank: 0, size: 3, job: 'x' }, 'yes'), { timeoutMs }));
    const fits = closing(t, meet(placeOf(port, { rank: 1, size: 3, job: 'x' }, 'no'), { timeoutMs }));
    // Noted before the others come.
    const probe = failure(meet(placeOf(port, { rank: 0, size: 3, job: 'x' }, 'no'), { timeoutMs }));
    assert.match((await probe).message, /rank 0 \(a, pid 1\) has come already\. Do two jobs/);
    for (const [arrival, expected] of [
      [{ rank: 1, size: 2, job: 'x' }, /has 3 ranks, but HOROVOD_SIZE of this process is 2/],
      [{ rank: 2, size: 3, job: 'y' }, /HOROVOD_JOB_ID of rank 0 .* is x, of this process y/],
      [{ rank: 2, size: 3 }, /is x, of this process not set/],
      [{ size: 3, job: 'x' }, /this process has no HOROVOD_RANK, but rank 0 .* has one\. Set it on all/],
    ] as const) {
      const error = await failure(meet(placeOf(port, arrival, 'no'), { timeoutMs }));
      assert.equal(error.code, 'ERR_HVD_RENDEZVOUS');
      assert.match(error.message, expected);
    }
    const last = closing(t, meet(placeOf(port, { rank: 2, size: 3, job: 'x' }, 'no'), { timeoutMs }));
    assert.deepEqual(
      (await Promise.all([serving, fits, last])).map(({ rank }) => rank),
      [0, 1, 2],
    );
  });

  test('a wrong secret is not let in', () =>
    patiently(async (visitMs) => {
      const port = await freePort();
      const serving = failure(meet(placeOf(port, { rank: 0 }, 'yes'), { timeoutMs: 2 * visitMs }));
      const place = { ...placeOf(port, { rank: 1 }, 'no'), secret: JobSecret.generate() };
      const error = await failure(meet(place, { timeoutMs: visitMs }));
      assert.equal(error.code, 'ERR_HVD_TIMEOUT');
      assert.match((await serving).message, /missing: rank 1/);
      assert.match(error.message, /rejected: another job, or a different secret/);
    }));

  test('the store answers only those who have come: others may announce themselves and nothing else', async (t) => {
    const port = await freePort();
    const serving = meet(placeOf(port, { rank: 0, size: 3 }, 'yes'), { timeoutMs });
    const given = { size: 3, job: undefined, host: 'a', machine: 'a' };
    const member = await comeByHand(port, { ...given, rank: 1, pid: 1 });
    t.after(() => member.close());
    await member.set('of the job', 'x');
    const visitor = await visit(port, 2000);
    t.after(() => visitor.close());
    for (const attempt of [
      () => visitor.get('of the job', { timeoutMs }),
      () => visitor.set('of the visitor', 'y'),
      () => visitor.set(arrivalKey(1001), 'y'),
    ]) {
      const error = await failure(attempt());
      assert.equal(error.code, 'ERR_HVD_RENDEZVOUS');
      assert.match(error.message, /is for members of the job only/);
    }
    await visitor.set(arrivalKey(2000), JSON.stringify({ ...given, rank: 2, pid: 2 }));
    await visitor.get(notedKey(2000), { timeoutMs });
    assert.equal(await visitor.get('of the job', { timeoutMs }), 'x');
    (await serving).store.close();
  });

  test('who is missing is named to all at the deadline of the one that serves', () =>
    patiently(async (waitMs) => {
      const port = await freePort();
      const both = [0, 2].map((rank) => {
        const place = placeOf(port, { rank, size: 4, pid: 40 + rank }, rank === 0 ? 'yes' : 'no');
        return failure(meet(place, { timeoutMs: waitMs }));
      });
      for (const error of await Promise.all(both)) {
        assert.equal(error.code, 'ERR_HVD_TIMEOUT');
        assert.match(
          error.message,
          /2 of 4 have come \(rank 0 \(a, pid 40\), rank 2 \(a, pid 42\)\), missing: rank 1, 3/,
        );
      }
    }));

  test('a process that ends before all are there ends the wait of all at once', async () => {
    const port = await freePort();
    const serving = failure(meet(placeOf(port, { rank: 0, size: 4 }, 'yes'), { timeoutMs }));
    const waiting = failure(meet(placeOf(port, { rank: 1, size: 4, pid: 2 }, 'no'), { timeoutMs }));
    const own = placeOf(port, { rank: 3, size: 4, pid: 9 }, 'no').own;
    const store = await comeByHand(port, own);
    store.closeAbruptly();
    for (const error of await Promise.all([serving, waiting])) {
      assert.equal(error.code, 'ERR_HVD_PEER_LOST');
      assert.match(error.message, /rank 3 \(a, pid 9\) ended before all ranks had come together/);
    }
  });

  test('a rank that ends while others start is lost to them; one that leaves only to who waits for it', async (t) => {
    const port = await freePort();
    const [zero, one, two] = (await Promise.all(
      [0, 1, 2].map((rank) =>
        closing(t, meet(placeOf(port, { rank, size: 3 }, rank === 0 ? 'yes' : 'no'), { timeoutMs })),
      ),
    )) as [Meeting, Meeting, Meeting];
    const forOne = failure(zero.store.get('a', { from: 1, timeoutMs }));
    const forAnything = failure(zero.store.get('b', { timeoutMs }));
    one.store.close();
    assert.equal((await forOne).code, 'ERR_HVD_SHUT_DOWN');
    (two.store as TcpStore).closeAbruptly();
    const lost = await forAnything;
    assert.deepEqual([lost.code, lost.rank], ['ERR_HVD_PEER_LOST', 2]);
  });

  test('what rank 0 has written can be read for a moment after it has left', async (t) => {
    const port = await freePort();
    const [zero, one] = (await Promise.all(
      [0, 1].map((rank) =>
        closing(t, meet(placeOf(port, { rank }, rank === 0 ? 'yes' : 'no'), { timeoutMs })),
      ),
    )) as [Meeting, Meeting];
    await zero.store.set('last', 'word');
    zero.store.close();
    assert.equal(await one.store.get('last', { timeoutMs }), 'word');
    const error = await failure(one.store.get('more', { from: 0, timeoutMs }));
    assert.equal(error.code, 'ERR_HVD_SHUT_DOWN');
  });

  test('a port that something else has is named by the one that serves', async (t) => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    t.after(() => other.close());
    const { port } = other.address() as { port: number };
    const error = await failure(meet(placeOf(port, { rank: 0 }, 'yes'), { timeoutMs: 200 }));
    assert.equal(error.code, 'ERR_HVD_RENDEZVOUS');
    assert.match(error.message, new RegExp(`port ${port} of this machine is in use.*Read the test`));
    const free = await freePort();
    const both = [0, 1].map((rank) => {
      const place = placeOf(port, { rank }, rank === 0 ? 'yes' : 'no');
      const candidates = [port, free].map((each) => ({ host: '127.0.0.1', port: each }));
      return closing(t, meet({ ...place, ports: [port, free], candidates }, { timeoutMs }));
    });
    assert.deepEqual(
      (await Promise.all(both)).map(({ rank }) => rank),
      [0, 1],
    );
  });

  test('an abort signal ends the wait of either side', async () => {
    const port = await freePort();
    for (const serves of ['yes', 'no'] as const) {
      const signal = AbortSignal.timeout(50);
      const rank = serves === 'yes' ? 0 : 1;
      const error = await failure(meet(placeOf(port, { rank }, serves), { timeoutMs, signal }));
      assert.equal(error.code, 'ERR_HVD_ABORTED');
    }
  });
});
