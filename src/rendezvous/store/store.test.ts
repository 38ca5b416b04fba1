// The store over real sockets: what ranks may do, and what strangers may not.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { HorovodError } from '../../errors.ts';
import { SealedFrames } from '../../net/sealed-frames.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { connectToStore } from './connect.ts';
import { MemoryStore } from './memory-store.ts';
import { maxFrameBytes } from './messages.ts';
import { TcpStore } from './tcp-store.ts';
import { TcpStoreServer, type TcpStoreServerOptions } from './tcp-store-server.ts';

interface Scope {
  after(fn: () => unknown): void;
}

async function startServer(t: Scope, options: Partial<TcpStoreServerOptions> = {}) {
  const identity = { secret: JobSecret.generate(), jobId: 'job-1' };
  const server = await TcpStoreServer.start({ ...identity, ranks: 4, ...options });
  t.after(() => server.close());
  const connect = async (rank: number): Promise<TcpStore> => {
    const store = await TcpStore.connect({ ...identity, address: server.address, rank, timeoutMs: 20_000 });
    t.after(() => store.close());
    return store;
  };
  return { server, connect, identity };
}

async function startServerAt(t: Scope, port: number, identity: { secret: JobSecret; jobId: string }) {
  const server = await TcpStoreServer.start({ ...identity, ranks: 4, port });
  t.after(() => server.close());
}

/** However it comes about: a reset connection is closed too. */
async function closed(socket: Socket): Promise<void> {
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
}

function rejection(promise: Promise<unknown>): Promise<HorovodError> {
  return promise.then(
    () => assert.fail('it did not reject'),
    (error: unknown) => {
      assert.ok(HorovodError.is(error), String(error));
      return error;
    },
  );
}

async function assertServes(connect: (rank: number) => Promise<TcpStore>, key: string): Promise<void> {
  const [writer, reader] = [await connect(0), await connect(1)];
  const waiting = reader.get(key, { timeoutMs: 20_000 });
  await writer.set(key, 'works', { timeoutMs: 20_000 });
  assert.equal(await waiting, 'works');
  writer.close();
  reader.close();
}

test('a rank gets what another has written, before or after', async (t) => {
  const { connect, server } = await startServer(t);
  const [a, b] = [await connect(0), await connect(1)];
  const early = b.get('address/0');
  await a.set('address/0', 'here €😀');
  assert.equal(await early, 'here €😀');
  assert.equal(await b.get('address/0'), 'here €😀');
  assert.equal(await server.store.get('address/0'), 'here €😀');
  await server.store.set('from-launcher', 'x');
  assert.equal(await a.get('from-launcher'), 'x');
});

test('a key is written once; the same value again is fine', async (t) => {
  const { connect } = await startServer(t);
  const store = await connect(0);
  await store.set('key', 'one');
  await store.set('key', 'one');
  const error = await rejection(store.set('key', 'two'));
  assert.equal(error.code, 'ERR_HVD_RENDEZVOUS');
  assert.match(error.message, /"key" has been written already/);
  assert.equal(await store.get('key'), 'one');
});

test('a deadline and an abort signal end a wait, and the store stays usable', async (t) => {
  const { connect } = await startServer(t);
  const store = await connect(2);
  const late = await rejection(store.get('never', { timeoutMs: 10 }));
  assert.equal(late.code, 'ERR_HVD_TIMEOUT');
  assert.match(late.message, /"never" at the launcher/);
  const controller = new AbortController();
  const waiting = rejection(store.get('never', { signal: controller.signal }));
  controller.abort();
  assert.equal((await waiting).code, 'ERR_HVD_ABORTED');
  assert.equal(
    (await rejection(store.get('never', { signal: AbortSignal.abort() }))).code,
    'ERR_HVD_ABORTED',
  );
  await store.set('never', 'after all');
  assert.equal(await store.get('never'), 'after all');
});

test('values and keys that do not fit are rejected at the call', async (t) => {
  const { connect } = await startServer(t);
  const store = await connect(0);
  const large = await rejection(store.set('large', 'x'.repeat(maxFrameBytes)));
  assert.equal(large.code, 'ERR_HVD_INVALID_ARGUMENT');
  assert.equal((await rejection(store.get(''))).code, 'ERR_HVD_INVALID_ARGUMENT');
  await store.set('fits', 'x'.repeat(maxFrameBytes - 200));
  assert.equal((await store.get('fits')).length, maxFrameBytes - 200);
});

test('a lost rank ends the waits of all others at once, with who it was and how', async (t) => {
  const { connect, server } = await startServer(t);
  const store = await connect(0);
  await store.set('written', 'x');
  const waiting = rejection(store.get('unwritten'));
  await store.get('written');
  server.rankLost(1, { how: 'was killed by SIGSEGV', pid: 77, host: 'b', signal: 'SIGSEGV' });
  const error = await waiting;
  assert.equal(error.code, 'ERR_HVD_PEER_LOST');
  assert.equal(error.rank, 1);
  assert.equal(error.pid, 77);
  assert.equal(error.signal, 'SIGSEGV');
  assert.match(
    error.message,
    /rank 1 \(pid 77 on b\) was killed by SIGSEGV before all ranks had come together/,
  );
  assert.equal((await rejection(store.get('another'))).code, 'ERR_HVD_PEER_LOST');
  assert.equal(await store.get('written'), 'x');
});

test('a rank that left ends only the waits for that rank', async (t) => {
  const { connect, server } = await startServer(t);
  const store = await connect(0);
  const forOne = rejection(store.get('a', { from: 1 }));
  const forTwo = store.get('b', { from: 2 });
  await store.set('sent', '');
  server.rankLeft(1, { how: 'has shut down', pid: 5, exitCode: 0 });
  assert.equal((await forOne).code, 'ERR_HVD_SHUT_DOWN');
  await store.set('b', 'still');
  assert.equal(await forTwo, 'still');
  assert.equal((await rejection(store.get('c', { from: 1 }))).code, 'ERR_HVD_SHUT_DOWN');
});

test('the end of the launcher ends every wait', async (t) => {
  const { connect, server } = await startServer(t);
  const store = await connect(3);
  await store.set('sent', '');
  const waiting = rejection(store.get('never'));
  await server.close();
  const error = await waiting;
  assert.ok(error.code === 'ERR_HVD_RENDEZVOUS' || error.code === 'ERR_HVD_SHUT_DOWN', error.message);
  assert.ok(HorovodError.is(await rejection(store.set('more', ''))));
});

test('a wrong secret or job is rejected, and neither secret is in the error', async (t) => {
  const { server, identity, connect } = await startServer(t);
  const secret = JobSecret.generate();
  for (const wrong of [
    { ...identity, secret },
    { ...identity, jobId: 'job-2' },
  ]) {
    const error = await rejection(TcpStore.connect({ ...wrong, address: server.address, rank: 1 }));
    assert.equal(error.code, 'ERR_HVD_RENDEZVOUS');
    assert.match(
      error.message,
      /rank 1 cannot connect to the launcher: tried .* \(rejected: another job, or a different secret\)\. Are _HOROVOD_SECRET_KEY/,
    );
    for (const key of [secret, identity.secret]) {
      assert.ok(!`${error.stack}`.includes(key.revealForEnvironment()));
    }
  }
  const stranger = await rejection(TcpStore.connect({ ...identity, address: server.address, rank: 4 }));
  assert.match(stranger.message, /it does not know rank 4/);
  await assertServes(connect, 'after wrong secrets');
});

test('a server that does not know the secret is not believed', async (t) => {
  const impostor = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.write(Buffer.concat([Buffer.from('HVD2'), Buffer.alloc(32)]));
    socket.once('data', () => socket.write(Buffer.alloc(37, 1)));
  });
  await new Promise<void>((resolve) => impostor.listen(0, '127.0.0.1', resolve));
  t.after(() => impostor.close());
  const { port } = impostor.address() as { port: number };
  const error = await rejection(
    TcpStore.connect({ secret: JobSecret.generate(), jobId: 'j', address: `127.0.0.1:${port}`, rank: 0 }),
  );
  assert.equal(error.code, 'ERR_HVD_RENDEZVOUS');
  assert.match(error.message, /does not know the secret/);
});

test('what is no launcher at all, or nobody, is named', async () => {
  const web = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.write(`HTTP/1.1 400 Bad Request\r\n${'x'.repeat(100)}`);
  });
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
  const { port } = web.address() as { port: number };
  const options = { secret: JobSecret.generate(), jobId: 'j', address: `127.0.0.1:${port}`, rank: 0 };
  assert.match((await rejection(TcpStore.connect(options))).message, /another program is listening there/);
  await new Promise<void>((resolve) => web.close(() => resolve()));
  assert.match(
    (await rejection(TcpStore.connect(options))).message,
    /cannot connect to the launcher.*nothing is listening there/,
  );
});

test('a server that says nothing is given up at the deadline, or when told to', async (t) => {
  const silent = createServer(() => undefined);
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  t.after(() => silent.close());
  const { port } = silent.address() as { port: number };
  const options = { secret: JobSecret.generate(), jobId: 'j', address: `127.0.0.1:${port}`, rank: 0 };
  assert.equal((await rejection(TcpStore.connect({ ...options, timeoutMs: 20 }))).code, 'ERR_HVD_TIMEOUT');
  const controller = new AbortController();
  const connecting = rejection(TcpStore.connect({ ...options, signal: controller.signal }));
  controller.abort();
  assert.equal((await connecting).code, 'ERR_HVD_ABORTED');
});

test('an authenticated rank that sends nonsense loses its connection, the others do not', async (t) => {
  const { server, connect, identity } = await startServer(t);
  for (const nonsense of [
    Buffer.from([0xff, 0xff, 0xff, 0xff]),
    Buffer.from([0, 0, 0, 0]),
    '{a}',
    JSON.stringify({ op: 'get', id: 1, key: 'k', extra: true }),
    JSON.stringify({ op: 'set', id: 1, key: 'k' }),
    JSON.stringify({ op: 'get', id: -1, key: 'k' }),
    '[1]',
  ]) {
    const { socket, keysFor } = await connectToStore({
      identity,
      rank: 2,
      channel: '',
      addresses: server.addresses,
      timeoutMs: 20_000,
      signal: undefined,
      server: 'the launcher',
      client: 'rank 2',
      mayComeLater: false,
    });
    socket.resume();
    const frames = new SealedFrames(keysFor('frames'), maxFrameBytes);
    socket.write(typeof nonsense === 'string' ? frames.seal(nonsense) : nonsense);
    await closed(socket);
  }
  await assertServes(connect, 'after nonsense');
});

test('a number that is not one of the job, and a second connection with a number that is in use, are rejected', async (t) => {
  const { connect, server, identity } = await startServer(t);
  const outside = await rejection(connect(4));
  assert.equal(outside.code, 'ERR_HVD_RENDEZVOUS');
  assert.match(outside.message, /it does not know rank 4/);
  const first = await connect(1);
  const second = await rejection(connect(1));
  assert.equal(second.code, 'ERR_HVD_RENDEZVOUS');
  assert.match(second.message, /rank 1 is connected there already.*two processes .* the same HOROVOD_RANK/);
  await first.set('still', 'here');
  // The call of run() has a connection of its own; and a rank that has left may come again.
  const address = server.address;
  const call = await TcpStore.connect({ ...identity, address, rank: 1, channel: 'run', timeoutMs: 20_000 });
  assert.equal(await call.get('still'), 'here');
  call.close();
  first.close();
  assert.equal(await (await connect(1)).get('still'), 'here');
});

test('a client reads and writes only what it may', async (t) => {
  const { connect } = await startServer(t, { mayUse: (rank, key) => rank === 0 || key === 'public' });
  const [member, guest] = [await connect(0), await connect(1)];
  await member.set('private', 'x');
  await guest.set('public', 'y');
  const error = await rejection(guest.get('private'));
  assert.equal(error.code, 'ERR_HVD_RENDEZVOUS');
  assert.match(error.message, /"private" is for members of the job only/);
  assert.equal(await member.get('public'), 'y');
});

test('an idle connection does not keep a process alive', async (t) => {
  const { server, identity } = await startServer(t);
  const { spawn } = await import('node:child_process');
  const script = `
    const base = ${JSON.stringify(new URL('./', import.meta.url).href)};
    const { TcpStore } = await import(base + 'tcp-store.js');
    const { JobSecret } = await import(base + '../../settings/job-secret.js');
    const secret = JobSecret.fromHex(process.env.SECRET);
    const store = await TcpStore.connect({ secret, jobId: 'job-1', address: process.env.ADDRESS, rank: 0 });
    await store.set('child', 'was here');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, SECRET: identity.secret.revealForEnvironment(), ADDRESS: server.address },
    stdio: 'inherit',
  });
  t.after(() => child.kill('SIGKILL'));
  const [code] = await once(child, 'exit');
  assert.equal(code, 0);
  assert.equal(await server.store.get('child'), 'was here');
});

test('of several addresses the first that proves itself is taken, whatever else listens there', async (t) => {
  const { server, identity } = await startServer(t, { listenOn: 'all' });
  assert.ok(server.addresses.length >= 1);
  const { server: otherJob } = await startServer(t);
  const web = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.write('x'.repeat(100));
  });
  const silent = createServer(() => undefined);
  for (const each of [web, silent]) {
    await new Promise<void>((resolve) => each.listen(0, '127.0.0.1', resolve));
    t.after(() => each.close());
  }
  const at = (each: typeof web) => `127.0.0.1:${(each.address() as { port: number }).port}`;
  const decoys = [at(web), at(silent), otherJob.address, '127.0.0.1:1', 'no.such.host.invalid:1'];
  const address = [...decoys, server.address].join(',');
  const store = await TcpStore.connect({ ...identity, address, rank: 0, timeoutMs: 20_000 });
  await store.set('found', 'yes');
  assert.equal(await server.store.get('found'), 'yes');
  store.close();
  const nowhere = [at(web), otherJob.address, '127.0.0.1:1'].join(',');
  const error = await rejection(
    TcpStore.connect({ ...identity, address: nowhere, rank: 0, timeoutMs: 20_000 }),
  );
  assert.equal(error.code, 'ERR_HVD_RENDEZVOUS');
  assert.match(
    error.message,
    /another program is listening.*rejected: another job.*127\.0\.0\.1:1 \(nothing is listening there\)/,
  );
});

test('a server that may come later is waited for', async (t) => {
  const { server, identity } = await startServer(t);
  const { port } = server;
  await server.close();
  const address = `127.0.0.1:${port}`;
  const options = { ...identity, address, rank: 1, mayComeLater: true };
  const early = await rejection(TcpStore.connect({ ...options, server: 'rank 0', timeoutMs: 50 }));
  assert.equal(early.code, 'ERR_HVD_TIMEOUT');
  assert.match(
    early.message,
    /rank 1 could not connect to rank 0 within 0.05 s: .*nothing is listening there/,
  );
  const connecting = TcpStore.connect({ ...options, timeoutMs: 20_000 });
  await startServerAt(t, port, identity);
  const store = await connecting;
  await store.set('late', 'but there');
  store.close();
});

test('a server hears who comes and who goes in good order', async (t) => {
  const events: string[] = [];
  let wake = () => {};
  const { connect } = await startServer(t, {
    onMember: (rank) => events.push(`${rank} came`),
    onMemberGone: (rank, hasLeft) => {
      events.push(`${rank} ${hasLeft ? 'left' : 'was lost'}`);
      wake();
    },
  });
  const [a, b] = [await connect(0), await connect(1)];
  await a.set('a', '');
  await b.set('b', '');
  const gone = new Promise<void>((resolve) => {
    wake = resolve;
  });
  a.close();
  await gone;
  assert.deepEqual(events, ['0 came', '1 came', '0 left']);
});

test('the store in memory waits, fails and closes like the one over TCP', async () => {
  const store = new MemoryStore();
  const waiting = store.get('key');
  await store.set('key', 'value');
  assert.equal(await waiting, 'value');
  assert.equal((await rejection(store.get('never', { timeoutMs: 5 }))).code, 'ERR_HVD_TIMEOUT');
  const last = rejection(store.get('never'));
  store.close();
  assert.equal((await last).code, 'ERR_HVD_SHUT_DOWN');
  assert.equal((await rejection(store.set('more', ''))).code, 'ERR_HVD_SHUT_DOWN');
});

test('a prefix that is closed ends waits and writes below it with its error, and nothing else', async (t) => {
  const { connect, server } = await startServer(t);
  const [a, b] = [await connect(0), await connect(1)];
  await a.set('g/1/there', 'x');
  await a.set('g/11/there', 'y');
  const waiting = rejection(b.get('g/1/missing'));
  const elsewhere = b.get('g/11/missing');
  // Of one connection, requests are served in order: the two waits are there when this one is answered.
  assert.equal(await b.get('g/1/there'), 'x');
  const loss = new HorovodError('ERR_HVD_PEER_LOST', 'worker 2 was lost.', { rank: 2 });
  server.store.closePrefix('g/1/', loss);
  server.store.closePrefix('g/1/', new HorovodError('ERR_HVD_SHUT_DOWN', 'too late.'));
  for (const error of [
    await waiting,
    await rejection(a.get('g/1/there')),
    await rejection(a.get('g/1/later')),
    await rejection(a.set('g/1/later', 'z')),
  ]) {
    assert.deepEqual([error.code, error.rank, error.detail], ['ERR_HVD_PEER_LOST', 2, 'worker 2 was lost.']);
  }
  await a.set('g/11/missing', 'z');
  assert.equal(await elsewhere, 'z');
  assert.equal(await b.get('g/11/there'), 'y');
});
