// The registry of a data service and its clients, over real sockets. The texts are those of Python Horovod.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { errorOf } from '../../../test/support/error-of.ts';
import { TcpStore } from '../../rendezvous/store/tcp-store.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { Registry, type RegistryOptions, registryJobId } from './registry.ts';
import { ComputeClient } from './registry-client.ts';
import type { ServicePlace } from './registry-messages.ts';

interface Scope {
  after(fn: () => unknown): void;
}

async function startService(t: Scope, options: Partial<RegistryOptions> = {}) {
  const fixed = {
    key: randomBytes(32).toString('hex'),
    incarnation: 1,
    dispatchers: 2,
    workersPerDispatcher: 2,
    dispatcherSide: 'compute' as const,
    timeout: 20,
    ...options,
  };
  const registry = await Registry.start({ ...fixed, listenOn: 'loopback' });
  t.after(() => registry.close());
  const place: ServicePlace = { ...fixed, addresses: registry.addresses };
  const connect = (changes: Partial<ServicePlace> = {}, reread?: () => Promise<ServicePlace | undefined>) => {
    const client = new ComputeClient({ ...place, ...changes }, { reread });
    t.after(() => client.close());
    return client;
  };
  return { registry, place, connect };
}

test('dispatchers are found by those that come before and after them', async (t) => {
  const { connect } = await startService(t);
  const [dispatcher, early, late] = [connect(), connect(), connect()];
  const waiting = early.waitForDispatcher(1);
  assert.deepEqual(await dispatcher.registerDispatcher(1, ['10.0.0.1:4000', '127.0.0.1:4000']), {
    incarnation: 1,
  });
  const expected = {
    index: 1,
    incarnation: 1,
    addresses: ['10.0.0.1:4000', '127.0.0.1:4000'],
    side: 'compute',
  };
  assert.deepEqual(await waiting, expected);
  assert.deepEqual(await late.waitForDispatcher(1), expected);
});

test('the same registration again changes nothing', async (t) => {
  const { connect } = await startService(t);
  const client = connect();
  for (let round = 0; round < 2; round++) {
    assert.deepEqual(await client.registerDispatcher(0, ['10.0.0.1:4000']), { incarnation: 1 });
    assert.deepEqual(await client.registerWorker(0, ['10.0.0.1:4001']), { number: 0 });
  }
  assert.equal((await client.workers(0)).length, 1);
});

test('an id out of range is an error of every call that takes one', async (t) => {
  const { connect } = await startService(t);
  const client = connect();
  for (const id of [-1, 2, 10]) {
    const text = new RegExp(`^ERR_HVD_INVALID_ARGUMENT: Dispatcher id must be within \\[0\\.\\.1\\]: ${id}$`);
    assert.match((await errorOf(client.registerDispatcher(id, ['h:1']))).message, text);
    assert.match((await errorOf(client.registerWorker(id, ['h:1']))).message, text);
    assert.match((await errorOf(client.waitForDispatcher(id))).message, text);
    assert.match((await errorOf(client.waitForWorkers(id))).message, text);
    assert.match((await errorOf(client.workers(id))).message, text);
  }
});

test('an id belongs to one process while that lives; the next one gets the next incarnation', async (t) => {
  const { connect } = await startService(t);
  const [old, next, watcher] = [connect(), connect(), connect()];
  await old.registerDispatcher(0, ['a:1']);
  const error = await errorOf(next.registerDispatcher(0, ['b:2']));
  assert.match(
    error.message,
    /^ERR_HVD_DATA_SERVICE: Dispatcher with id 0 has already been registered under different address a:1: b:2$/,
  );
  const newer = watcher.waitForDispatcher(0, { after: 1 });
  await old.close();
  await watcherSees(watcher, 0);
  assert.deepEqual(await next.registerDispatcher(0, ['b:2']), { incarnation: 2 });
  assert.deepEqual((await newer).addresses, ['b:2']);
});

/** Resolves when the registry has noticed the end of the process of dispatcher `index`. */
async function watcherSees(client: ComputeClient, index: number): Promise<void> {
  while ((await client.status()).dispatchers.some((each) => each.index === index && each.isAlive));
}

test('both time-outs of registrations have the texts of Python Horovod', async (t) => {
  const { connect } = await startService(t);
  const client = connect();
  const dispatcher = await errorOf(client.waitForDispatcher(0, { timeoutMs: 100 }));
  assert.equal(
    dispatcher.message,
    'ERR_HVD_TIMEOUT: Timed out waiting for dispatcher 0 to register. Try to find out what takes the dispatcher so long ' +
      'to register or increase timeout. Timeout after 0.1 seconds.',
  );
  await client.registerWorker(0, ['a:1']);
  const workers = await errorOf(client.waitForWorkers(0, { timeoutMs: 100 }));
  assert.equal(
    workers.message,
    'ERR_HVD_TIMEOUT: Timed out waiting for workers for dispatcher 0 to register. Try to find out what takes the workers ' +
      'so long to register or increase timeout. Timeout after 0.1 seconds.',
  );
});

test('workers are numbered, found when all are there, and gone when their process is', async (t) => {
  const { connect } = await startService(t);
  const [a, b, trainer] = [connect(), connect(), connect()];
  const all = trainer.waitForWorkers(1);
  assert.deepEqual(await a.registerWorker(1, ['a:1']), { number: 0 });
  assert.deepEqual(await b.registerWorker(1, ['b:1']), { number: 1 });
  assert.deepEqual(
    (await all).map(({ number, dispatcher, addresses, pid }) => [number, dispatcher, addresses, pid]),
    [
      [0, 1, ['a:1'], process.pid],
      [1, 1, ['b:1'], process.pid],
    ],
  );
  await a.close();
  while ((await trainer.workers(1)).length > 1);
  // All have been there: a trainer that comes later does not wait for the one that is lost.
  assert.deepEqual(
    (await trainer.waitForWorkers(1)).map(({ number }) => number),
    [1],
  );
  assert.deepEqual(await connect().registerWorker(1, ['a:1']), { number: 2 });
  await b.removeWorker(1);
  assert.deepEqual(
    (await trainer.workers(1)).map(({ number }) => number),
    [2],
  );
});

test('a list of many workers comes in pages', async (t) => {
  const { connect } = await startService(t, { dispatchers: 1, workersPerDispatcher: 300 });
  const client = connect();
  const addresses = Array.from({ length: 20 }, (_, i) => `10.20.30.${i}:40000`);
  for (let number = 0; number < 300; number++) {
    await client.registerWorker(0, [`worker-${number}:1`, ...addresses]);
  }
  const listed = await client.waitForWorkers(0);
  assert.deepEqual(
    listed.map(({ number }) => number),
    Array.from({ length: 300 }, (_, number) => number),
  );
  assert.equal((await client.status()).workers.length, 300);
});

test('a shutdown removes the config first, ends every wait, and lets clients leave', async (t) => {
  const order: string[] = [];
  const onShutdown = async () => void order.push('removed');
  const { registry, connect } = await startService(t, { onShutdown });
  const [worker, trainer] = [connect(), connect()];
  const end = worker.waitForShutdown().then(() => order.push('ended'));
  const waiting = errorOf(worker.waitForDispatcher(0));
  await trainer.shutdown();
  await trainer.shutdown();
  await end;
  assert.deepEqual(order, ['removed', 'ended']);
  assert.match((await waiting).message, /^ERR_HVD_SHUT_DOWN: the data service was shut down/);
  assert.match(
    (await errorOf(trainer.registerWorker(0, ['a:1']))).message,
    /^ERR_HVD_SHUT_DOWN: the data service was shut down/,
  );
  assert.equal((await trainer.status()).isShutDown, true);
  await Promise.all([worker.close(), trainer.close()]);
  await registry.waitForLeave(20_000);
});

test('waits end by their signal, and when the client is closed', async (t) => {
  const { connect } = await startService(t);
  const client = connect();
  const controller = new AbortController();
  const waiting = errorOf(client.waitForDispatcher(0, { signal: controller.signal }));
  const forEver = errorOf(client.waitForShutdown());
  await client.status();
  controller.abort();
  assert.equal((await waiting).code, 'ERR_HVD_ABORTED');
  await client.close();
  assert.match((await forEver).message, /^ERR_HVD_SHUT_DOWN: the client of the data service was closed/);
});

test('the status has the reports of living workers and dispatchers', async (t) => {
  const { connect } = await startService(t);
  const client = connect();
  await client.registerDispatcher(0, ['a:1']);
  await client.registerWorker(0, ['a:2']);
  const report = { batchesPerSecond: 41, bytesPerSecond: 246e6, leases: 3, arena: 0.62 };
  client.reportWorker(0, report);
  client.reportDispatcher(0, { jobs: [{ name: 'job', epoch: 3, done: 0.61, starved: [0.01, null] }] });
  const status = async () => (await connect().status()).workers[0]?.report;
  let seen = await status();
  while (seen === undefined) seen = await status();
  assert.deepEqual(seen, report);
  const { dispatchers, expected, pid } = await client.status();
  assert.equal(dispatchers[0]?.report?.jobs[0]?.name, 'job');
  assert.deepEqual([expected, pid], [{ dispatchers: 2, workersPerDispatcher: 2 }, process.pid]);
});

test('a client with another key is rejected, and nobody at all is said so', async (t) => {
  const { place, connect } = await startService(t);
  const stranger = connect({ key: 'ab'.repeat(32) });
  const error = await errorOf(stranger.status());
  assert.match(
    error.message,
    /^ERR_HVD_DATA_SERVICE: this process cannot connect to the registry of the data service: tried 127\.0\.0\.1:\d+ \(rejected/,
  );
  assert.ok(!error.message.includes(place.key));
  const lonely = connect({ addresses: ['127.0.0.1:1'] });
  const refused = (await errorOf(lonely.status())).message;
  assert.match(refused, /nothing is listening there\)\. Is the compute job still running/);
});

test('a lost registry is replaced: clients find the new one in the config and register again', async (t) => {
  const first = await startService(t, { timeout: 30 });
  let place: ServicePlace | undefined = first.place;
  const reread = async () => place;
  const [worker, trainer] = [first.connect({}, reread), first.connect({}, reread)];
  await worker.registerDispatcher(0, ['a:1']);
  await worker.registerWorker(0, ['a:2']);
  await first.connect().registerWorker(0, ['b:2']);
  const end = errorOf(worker.waitForShutdown());
  const newer = trainer.waitForDispatcher(0, { after: 1 });
  await first.registry.close();
  const second = await startService(t, { key: first.place.key, incarnation: 2 });
  place = second.place;
  // The numbers are those of the first registry, and one worker is enough: nobody knows who else will come.
  assert.deepEqual(
    (await trainer.waitForWorkers(0)).map(({ number }) => number),
    [0],
  );
  assert.equal((await trainer.waitForDispatcher(0)).incarnation, 1);
  assert.deepEqual(await second.connect().registerWorker(0, ['c:2']), { number: 10_000 });
  // A dispatcher that comes now is newer than one that the second registry has never seen.
  assert.deepEqual(await second.connect().registerDispatcher(1, ['e:1']), { incarnation: 10_001 });
  await worker.close();
  await watcherSees(trainer, 0);
  assert.deepEqual(await second.connect().registerDispatcher(0, ['d:1']), { incarnation: 2 });
  assert.equal((await newer).incarnation, 2);
  assert.match((await end).message, /the client of the data service was closed/);
});

test('a service whose config is gone and that does not answer has ended', async (t) => {
  const { registry, connect } = await startService(t);
  const client = connect({}, async () => undefined);
  const end = errorOf(client.waitForShutdown());
  await client.status();
  await registry.close();
  assert.match((await end).message, /^ERR_HVD_SHUT_DOWN: the data service has ended: its config was removed/);
});

test('a client that is silent is lost', async (t) => {
  const { place, registry, connect } = await startService(t, { silenceMs: 1500 });
  const silent = await TcpStore.connect({
    secret: JobSecret.fromHex(place.key) as JobSecret,
    jobId: registryJobId,
    rank: 7,
    address: registry.addresses.join(','),
  });
  t.after(() => silent.close());
  const call = { call: 'register worker', dispatcher: 0, addresses: ['a:1'], host: 'a', pid: 1 };
  assert.equal(await silent.call(JSON.stringify(call), ''), '{"number":0}');
  const [watcher, beating] = [connect(), connect()];
  await beating.registerWorker(0, ['b:1']);
  while ((await watcher.workers(0)).length > 1);
  assert.equal((await watcher.workers(0))[0]?.number, 1);
});

test('a message that is no call ends the call, and nothing else', async (t) => {
  const { place, registry, connect } = await startService(t);
  const odd = await TcpStore.connect({
    secret: JobSecret.fromHex(place.key) as JobSecret,
    jobId: registryJobId,
    rank: 7,
    address: registry.addresses.join(','),
  });
  t.after(() => odd.close());
  for (const body of [
    'no JSON',
    '[]',
    '{"call":"fly"}',
    '{"call":"status","more":1}',
    '{"call":"register worker","dispatcher":0,"addresses":["no address"],"host":"a","pid":1}',
    '{"call":"register worker","dispatcher":0,"addresses":[],"host":"a","pid":1}',
    '{"call":"workers","dispatcher":0,"after":-7}',
  ]) {
    assert.match(
      (await errorOf(odd.call(body, ''))).message,
      /a call with unknown|not JSON|not an object/,
      body,
    );
  }
  assert.equal((await connect().status()).workers.length, 0);
});
