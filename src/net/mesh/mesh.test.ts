// Connections between ranks, over real sockets of this machine: who gets connected, who does not, and that the last
// byte Node reads is the last of the handshake.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { describe, test } from 'node:test';
import { patiently } from '../../../test/support/patiently.ts';
import { HorovodError } from '../../errors.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { type Connection, readyByte } from '../connection.ts';
import { connectMesh, type MeshOptions } from './connect.ts';
import { MeshListener, type MeshListenerOptions } from './listener.ts';

interface Scope {
  after(fn: () => void): void;
}

const secret = JobSecret.generate();
const jobId = 'job-1';

async function listen(
  t: Scope,
  rank: number,
  options: Partial<MeshListenerOptions> = {},
): Promise<MeshListener> {
  const listener = await MeshListener.open({ secret, jobId, rank, networkInterfaces: ['lo'], ...options });
  t.after(() => listener.close());
  return listener;
}

/** A mesh as one of `listeners` joins it; what it gets is closed with the test. */
async function join(
  t: Scope,
  listeners: readonly MeshListener[],
  index: number,
  options: Partial<MeshOptions> = {},
): Promise<(Connection | undefined)[]> {
  const sockets = await connectMesh({
    listener: listeners[index] as MeshListener,
    channel: 'group 0',
    ranks: listeners.map(({ rank }) => rank),
    index,
    peers: listeners.map((_, peer) => peer),
    candidates: listeners.map(({ candidates }) => candidates),
    timeoutMs: 20_000,
    ...options,
  });
  t.after(() => {
    for (const mesh of sockets) mesh?.socket.destroy();
  });
  return sockets;
}

/** Both ends of one connection, the accepted one first. */
async function pair(t: Scope, options: Partial<MeshOptions> = {}): Promise<[Connection, Connection]> {
  const listeners = [await listen(t, 0), await listen(t, 1)];
  const [[, accepted], [dialed]] = (await Promise.all([
    join(t, listeners, 0, options),
    join(t, listeners, 1, options),
  ])) as [Connection[], Connection[]];
  return [accepted as Connection, dialed as Connection];
}

async function rejection(promise: Promise<unknown>): Promise<HorovodError> {
  const error = await promise.then(
    () => assert.fail('it should have been rejected'),
    (thrown: unknown) => thrown,
  );
  assert.ok(HorovodError.is(error), String(error));
  return error;
}

/** As once(), for sockets that may end with an error. */
function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()));
}

async function nextBytes({ socket }: Connection, bytes: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  socket.resume();
  while (Buffer.concat(pieces).length < bytes) pieces.push((await once(socket, 'data'))[0] as Buffer);
  return Buffer.concat(pieces);
}

test('all members get connected with each other, the higher rank being the one that dials', async (t) => {
  const listeners = await Promise.all([4, 9, 2].map((rank) => listen(t, rank)));
  const meshes = await Promise.all(listeners.map((_, index) => join(t, listeners, index)));
  const accepted = meshes.map((mesh) => mesh.map((socket) => socket?.accepted));
  assert.deepEqual(accepted, [
    [undefined, true, false],
    [false, undefined, false],
    [true, true, undefined],
  ]);
  for (const [from, to] of [
    [0, 1],
    [1, 2],
    [2, 0],
  ] as const) {
    meshes[from]?.[to]?.socket.write(`${from} to ${to}`);
    const text = await nextBytes(meshes[to]?.[from] as Connection, 6);
    assert.equal(text.toString(), `${from} to ${to}`);
  }
});

test('only peers get connected, and a group without peers is there at once', async (t) => {
  const listeners = await Promise.all([0, 1, 2].map((rank) => listen(t, rank)));
  const [first, last] = await Promise.all([
    join(t, listeners, 0, { peers: [2] }),
    join(t, listeners, 2, { peers: [0] }),
  ]);
  assert.deepEqual(
    first.map((socket) => socket !== undefined),
    [false, false, true],
  );
  assert.deepEqual(
    last.map((socket) => socket !== undefined),
    [true, false, false],
  );
  assert.deepEqual(await join(t, listeners, 1, { peers: [] }), [undefined, undefined, undefined]);
});

test('IPv6 does as well as IPv4', async (t) => {
  const hasIPv6 = Object.values(networkInterfaces()).some((list) =>
    list?.some(({ address }) => address === '::1'),
  );
  if (!hasIPv6) {
    t.skip('this machine has no IPv6');
    return;
  }
  const listeners = [await listen(t, 0), await listen(t, 1)];
  const port = /\d+$/.exec(listeners[0]?.candidates[0] as string)?.[0];
  const candidates = [[`[::1]:${port}`], []];
  const [, dialer] = await Promise.all([0, 1].map((index) => join(t, listeners, index, { candidates })));
  assert.equal(dialer?.[0]?.address, `[::1]:${port}`);
});

describe('descriptors', () => {
  test('of what is sent at once after the handshake no byte is read by Node', async (t) => {
    const [accepted, dialed] = await pair(t);
    const sent = Buffer.concat([Buffer.from([readyByte]), Buffer.alloc(50_000, 'abcdefg')]);
    await new Promise<void>((resolve) => dialed.socket.write(sent, () => resolve()));
    // Node has every opportunity to read now.
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(accepted.socket.readableLength, 0);
    const received = Buffer.alloc(sent.length);
    const bytes = readSync(accepted.takeDescriptor(), received);
    assert.deepEqual(received.subarray(0, bytes), sent.subarray(0, bytes));
    assert.equal(bytes, sent.length);
  });

  test('a duplicate goes on after release(), in both directions, on both sides', async (t) => {
    const [accepted, dialed] = await pair(t);
    const script = `
      const { Socket } = require('node:net');
      const socket = new Socket({ fd: 3 });
      socket.write(process.argv[1]);
      socket.on('data', (piece) => { process.stdout.write(piece); socket.end(); });`;
    const children = [accepted, dialed].map((mesh, place) => {
      const child = spawn(process.execPath, ['-e', script, `from child ${place}`], {
        stdio: ['ignore', 'pipe', 'inherit', mesh.takeDescriptor()],
      });
      mesh.release();
      t.after(() => child.kill('SIGKILL'));
      return child;
    });
    const heard = await Promise.all(
      children.map(async (child) => String((await once(child.stdout as NodeJS.ReadableStream, 'data'))[0])),
    );
    assert.deepEqual(heard, ['from child 1', 'from child 0']);
  });

  test('a connection that is closed has none', async (t) => {
    const [accepted] = await pair(t);
    accepted.release();
    assert.throws(() => accepted.takeDescriptor(), /closed/);
  });
});

// Deadlines that a crowded machine keeps; all at once, so that it does not take long.
describe('the right one is found among many addresses', { concurrency: true }, () => {
  test('nobody, another rank, this rank itself and a stranger listen at the other ones', async (t) => {
    const stranger = createServer((socket) => socket.end('220 mail.example ESMTP\r\n'));
    stranger.listen(0, '127.0.0.1');
    await once(stranger, 'listening');
    t.after(() => stranger.close());
    const { port } = stranger.address() as { port: number };
    const listeners = await Promise.all([0, 1, 2].map((rank) => listen(t, rank)));
    const own = listeners[0]?.candidates[0] as string;
    const decoys = [
      ...['127.0.0.1:1', `127.0.0.1:${port}`, 'no address'],
      ...[listeners[2]?.candidates[0] as string, listeners[1]?.candidates[0] as string],
    ];
    const candidates = [[...decoys, own], [], []];
    const [, dialer] = await Promise.all(
      [0, 1].map((index) => join(t, listeners.slice(0, 2), index, { candidates })),
    );
    assert.equal(dialer?.[0]?.address, own);
    // Without the right one: what was seen at each.
    const error = await rejection(
      join(t, listeners.slice(0, 2), 1, {
        candidates: [decoys, []],
        channel: 'never',
        timeoutMs: 2000,
        hostnames: ['host1', 'host2'],
      }),
    );
    assert.equal(error.code, 'ERR_HVD_TIMEOUT');
    assert.equal(error.rank, 0);
    assert.match(
      error.message,
      /^ERR_HVD_TIMEOUT: rank 1 on host2 could not connect to all ranks of "never" within 2 s/,
    );
    assert.match(error.message, /rank 0 on host1: tried 127\.0\.0\.1:1 \(nothing is listening there\); /);
    assert.match(
      error.message,
      new RegExp(`:${port} \\(another program is listening there\\); no address \\(not an address\\)`),
    );
    assert.match(error.message, /\(rank 2 is listening there\); .* \(this rank itself\)/);
    assert.match(
      error.message,
      /Check firewalls between the hosts, or name the network with --network-interfaces/,
    );
  });

  test('several addresses of one rank give one connection; the others are hung up', async (t) => {
    const listeners = [await listen(t, 0), await listen(t, 1)];
    const port = /\d+$/.exec(listeners[0]?.candidates[0] as string)?.[0];
    const many = Array.from({ length: 20 }, (_, place) => `127.0.0.${place + 1}:${port}`);
    const [acceptor, dialer] = await Promise.all(
      [0, 1].map((index) => join(t, listeners, index, { candidates: [many, []] })),
    );
    dialer?.[0]?.socket.write('the one');
    assert.equal(String(await nextBytes(acceptor?.[1] as Connection, 7)), 'the one');
  });

  test('silence at an address is given up and named', async (t) => {
    // A frozen machine: the kernel accepts, and nothing comes.
    const silent = createServer(() => undefined);
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    t.after(() => silent.close());
    const address = `127.0.0.1:${(silent.address() as { port: number }).port}`;
    const listeners = [await listen(t, 0), await listen(t, 1)];
    const error = await rejection(
      join(t, listeners, 1, { candidates: [[address], []], attemptTimeoutMs: 100, timeoutMs: 1500 }),
    );
    assert.match(error.message, /tried 127\.0\.0\.1:\d+ \(no answer within 0\.1 s\)/);
  });
});

describe('strangers', { concurrency: true }, () => {
  test('a rank with another secret, job, purpose or channel gets nothing and learns why', async (t) => {
    const listeners = [await listen(t, 0), await listen(t, 1)];
    const candidates = [listeners[0]?.candidates as string[], []];
    const rejected = /rejected: another job, or a different secret/;
    const cases = [
      [{ secret: JobSecret.generate() }, rejected],
      [{ jobId: 'job-2' }, rejected],
      [{ purpose: 'watch' }, rejected],
      [{ rank: 1 }, /it answers at .*, but has not come as far as this rank\..*The network is fine/],
    ] as const;
    const wait = { candidates, timeoutMs: 1500 };
    const waiting = rejection(join(t, listeners, 0, { ...wait, channel: 'another' }));
    await Promise.all(
      cases.map(async ([options, reason]) => {
        const list = [listeners[0] as MeshListener, await listen(t, 1, options)];
        assert.match((await rejection(join(t, list, 1, wait))).message, reason);
      }),
    );
    assert.match((await waiting).message, /rank 1: it has not connected/);
  });
});

describe('order of arrival', () => {
  test('who comes early waits until the other side asks; two channels do not mix', async (t) => {
    const listeners = [await listen(t, 0), await listen(t, 1)];
    const early = ['b', 'a'].map((channel) => join(t, listeners, 1, { channel }));
    await untilParked(listeners[0] as MeshListener, 2);
    const late = await Promise.all(['a', 'b'].map((channel) => join(t, listeners, 0, { channel })));
    const [b, a] = await Promise.all(early);
    a?.[0]?.socket.write('a');
    b?.[0]?.socket.write('b');
    const heard = await Promise.all(
      late.map(async (mesh) => String(await nextBytes(mesh[1] as Connection, 1))),
    );
    assert.deepEqual(heard, ['a', 'b']);
  });

  test('a channel can be used again after its connection had been parked', async (t) => {
    const listeners = [await listen(t, 0), await listen(t, 1)];
    for (let time = 0; time < 2; time++) {
      const early = join(t, listeners, 1);
      await untilParked(listeners[0] as MeshListener, 1);
      await Promise.all([early, join(t, listeners, 0)]);
    }
  });

  test('who was parked for too long, or pushed out, tries again', async (t) => {
    const listeners = [await listen(t, 0, { parkedTimeoutMs: 50 }), await listen(t, 1)];
    const early = join(t, listeners, 1);
    for (const count of [1, 0, 1]) await untilParked(listeners[0] as MeshListener, count);
    await Promise.all([early, join(t, listeners, 0)]);
    const crowd = [await listen(t, 0, { maxParked: 1 }), await listen(t, 1), await listen(t, 2)];
    const contenders = [1, 2].map((index) => join(t, crowd, index, { peers: [0] }));
    await untilParked(crowd[0] as MeshListener, 1);
    await Promise.all([...contenders, join(t, crowd, 0)]);
  });

  test('a connection that was given up while it was parked is not handed out', async (t) => {
    const listeners = [await listen(t, 0), await listen(t, 1)];
    const abort = new AbortController();
    const early = rejection(join(t, listeners, 1, { signal: abort.signal }));
    await untilParked(listeners[0] as MeshListener, 1);
    abort.abort();
    assert.equal((await early).code, 'ERR_HVD_ABORTED');
    await untilParked(listeners[0] as MeshListener, 0);
    const late = await rejection(join(t, listeners, 0, { timeoutMs: 200 }));
    assert.match(late.message, /rank 1: it has not connected/);
  });

  async function untilParked(listener: MeshListener, count: number): Promise<void> {
    const deadline = Date.now() + 20_000;
    while (listener.parked !== count) {
      assert.ok(Date.now() < deadline, `${listener.parked} parked, not ${count}`);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }
});

describe('ending', () => {
  test('an AbortSignal ends the wait of both sides, before and after it began', async (t) => {
    const listeners = [await listen(t, 0), await listen(t, 1)];
    const reason = new Error('enough');
    const abort = new AbortController();
    const waits = [0, 1].map((index) =>
      rejection(join(t, listeners, index, { signal: abort.signal, channel: `channel ${index}` })),
    );
    abort.abort(reason);
    for (const error of await Promise.all(waits)) {
      assert.equal(error.code, 'ERR_HVD_ABORTED');
      assert.equal(error.cause, reason);
    }
    assert.equal((await rejection(join(t, listeners, 0, { signal: abort.signal }))).code, 'ERR_HVD_ABORTED');
  });

  test('if one peer is missing, what was connected is hung up', async (t) => {
    const listeners = await Promise.all([0, 1, 2].map((rank) => listen(t, rank)));
    await patiently(async (timeoutMs) => {
      const [whole] = await Promise.all([
        join(t, listeners, 0, { peers: [1], timeoutMs, channel: `${timeoutMs}` }),
        rejection(join(t, listeners, 1, { timeoutMs, channel: `${timeoutMs}` })),
      ]);
      const { socket } = whole[1] as Connection;
      socket.resume();
      await closed(socket);
    });
  });

  test('a listener does not keep a process alive', async (t) => {
    const script = `
      const base = ${JSON.stringify(new URL('./', import.meta.url).href)};
      const { MeshListener } = await import(base + 'listener.js');
      const { JobSecret } = await import(base + '../../settings/job-secret.js');
      await MeshListener.open({ secret: JobSecret.generate(), jobId: 'j', rank: 0 });`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' });
    t.after(() => child.kill('SIGKILL'));
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  });
});
