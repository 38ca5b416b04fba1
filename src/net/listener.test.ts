// What strangers can and cannot do at a listener, over real sockets of this machine.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createConnection, createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { JobSecret } from '../settings/job-secret.ts';
import { type Connection, readyByte } from './connection.ts';
import { Dial } from './dial.ts';
import { Listener, type ListenerOptions } from './listener.ts';

interface Scope {
  after(fn: () => unknown): void;
}

const identity = { secret: JobSecret.generate(), jobId: 'job-1' };
const [helloBytes, answerBytes, verdictBytes] = [36, 108, 37];

async function listen(t: Scope, options: Partial<ListenerOptions> = {}): Promise<Listener> {
  const listener = await Listener.open({
    ...identity,
    purpose: 'ranks',
    number: 0,
    listenOn: 'loopback',
    // Says what it hears.
    onIncoming: ({ accept }) => {
      const { socket } = accept();
      socket.pipe(socket);
    },
    ...options,
  });
  t.after(() => listener.close());
  return listener;
}

function dial(t: Scope, addresses: readonly string[]): Promise<Connection> {
  return new Promise((onConnection) => {
    const claim = { purpose: 'ranks', from: 1, to: 0, channel: 'a' } as const;
    const attempt = new Dial({ identity, claim, addresses, onConnection });
    t.after(() => attempt.cancel());
  });
}

/** A rank of the job gets through. */
async function assertOpen(t: Scope, listener: Listener): Promise<void> {
  const { socket } = await dial(t, listener.addresses);
  socket.write('echo');
  socket.resume();
  assert.equal(String((await once(socket, 'data'))[0]), 'echo');
  socket.destroy();
}

function strangerTo(t: Scope, { port }: Listener): Socket {
  const socket = createConnection({ host: '127.0.0.1', port });
  socket.on('error', () => undefined);
  t.after(() => socket.destroy());
  return socket;
}

async function bytesUntilClose(socket: Socket): Promise<Buffer> {
  const pieces: Buffer[] = [];
  socket.on('data', (piece) => pieces.push(piece));
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
  return Buffer.concat(pieces);
}

test('garbage, truncated and oversized answers are rejected within a few bytes', async (t) => {
  const listener = await listen(t);
  const answers = [
    'GET / HTTP/1.1\r\n\r\n',
    Buffer.alloc(answerBytes, 7),
    Buffer.alloc(1 << 20, 7),
    Buffer.concat([Buffer.from('HVD2'), Buffer.alloc(answerBytes, 7)]),
  ];
  for (const answer of answers) {
    const stranger = strangerTo(t, listener);
    stranger.write(answer);
    assert.ok((await bytesUntilClose(stranger)).length <= helloBytes);
  }
  const truncated = strangerTo(t, listener);
  truncated.end(Buffer.from('HVD1 and so on'));
  assert.ok((await bytesUntilClose(truncated)).length <= helloBytes);
  // One that looks right gets a verdict of "no": nothing else ever comes.
  const forger = strangerTo(t, listener);
  forger.write(Buffer.concat([Buffer.from('HVD2'), Buffer.alloc(answerBytes - 4, 7)]));
  const heard = await bytesUntilClose(forger);
  assert.equal(heard.length, helloBytes + verdictBytes);
  assert.equal(heard[helloBytes], 0);
  await assertOpen(t, listener);
});

test('recorded bytes of a rank do not open the door again', async (t) => {
  const listener = await listen(t);
  const recorded: Buffer[] = [];
  // A wire-tap between a rank and the listener.
  const tap = createServer((near) => {
    const far = createConnection({ host: '127.0.0.1', port: listener.port });
    for (const socket of [near, far]) socket.on('error', () => undefined);
    near.on('data', (piece) => recorded.push(piece));
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => tap.listen(0, '127.0.0.1', resolve));
  const { socket } = await dial(t, [`127.0.0.1:${(tap.address() as { port: number }).port}`]);
  socket.destroy();
  tap.close();
  const replay = strangerTo(t, listener);
  replay.write(Buffer.concat(recorded).subarray(0, answerBytes));
  assert.equal((await bytesUntilClose(replay))[helloBytes], 0);
  await assertOpen(t, listener);
});

test('who takes too long to prove itself is dropped, byte by byte or silent', async (t) => {
  const listener = await listen(t, { handshakeTimeoutMs: 200 });
  const [silent, slow] = [strangerTo(t, listener), strangerTo(t, listener)];
  const answer = Buffer.from('HVD2'.padEnd(50));
  let at = 0;
  const dripping = setInterval(() => slow.write(answer.subarray(at, ++at)), 20);
  t.after(() => clearInterval(dripping));
  await assertOpen(t, listener);
  await Promise.all([bytesUntilClose(silent), bytesUntilClose(slow)]);
  await assertOpen(t, listener);
});

test('a flood of strangers does not keep the ranks out', async (t) => {
  const listener = await listen(t, { maxStrangers: 8 });
  const sockets = new Set<Socket>();
  let isFlooding = true;
  const flood = () => {
    const socket = createConnection({ host: '127.0.0.1', port: listener.port });
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => {
      sockets.delete(socket);
      if (isFlooding) setImmediate(flood);
    });
  };
  for (let i = 0; i < 30; i++) flood();
  for (let round = 0; round < 5; round++) await assertOpen(t, listener);
  isFlooding = false;
  for (const socket of sockets) socket.destroy();
});

test('a dialer whose claim is not accepted is rejected, whatever it proves', async (t) => {
  const listener = await listen(t, { accepts: ({ from }) => (from === 1 ? 'no' : 'yes') });
  const claim = { purpose: 'ranks', from: 1, to: 0, channel: 'a' } as const;
  const seen = await new Promise<Dial>((resolve) => {
    const attempt: Dial = new Dial({
      identity,
      claim,
      addresses: listener.addresses,
      onConnection: () => assert.fail('it was accepted'),
      onSight: () => resolve(attempt),
    });
    t.after(() => attempt.cancel());
  });
  assert.deepEqual(seen.sights, [{ kind: 'other', number: 0 }]);
});

test('a process without file descriptors says so, and accepts the ranks that keep trying when it has some again', async (t) => {
  const script = `
    const base = ${JSON.stringify(new URL('./', import.meta.url).href)};
    const { Listener } = await import(base + 'listener.js');
    const { JobSecret } = await import(base + '../settings/job-secret.js');
    const fs = await import('node:fs');
    const listener = await Listener.open({ secret: JobSecret.fromText('s'), jobId: 'j', purpose: 'ranks', number: 0,
      listenOn: 'loopback', onIncoming: ({ accept }) => {
        const { socket } = accept();
        socket.once('data', () => socket.end('here')).resume();
      } });
    process.on('warning', ({ message }) => {
      for (const fd of held) fs.closeSync(fd);
      process.stdin.once('data', () => process.exit()).ref();
      console.log(message);
    });
    const held = [];
    process.stdin.once('data', () => {
      try { for (;;) held.push(fs.openSync('/dev/null')); } catch {}
      console.log('full');
    });
    console.log(listener.port);`;
  const command = [
    '-c',
    'ulimit -n 64 && exec "$0" "$@"',
    process.execPath,
    '--input-type=module',
    '-e',
    script,
  ];
  const child = spawn('sh', command, { stdio: ['pipe', 'pipe', 'ignore'] });
  t.after(() => child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const line = async () => String((await lines.next()).value);
  const port = await line();
  child.stdin.write('fill\n');
  assert.equal(await line(), 'full');
  const there = { secret: JobSecret.fromText('s'), jobId: 'j' };
  const claim = { purpose: 'ranks', from: 1, to: 0, channel: 'a' } as const;
  const seen: string[] = [];
  const connected = new Promise<Connection>((onConnection) => {
    const attempt: Dial = new Dial({
      identity: there,
      claim,
      addresses: [`127.0.0.1:${port}`],
      onConnection,
      onSight: () => seen.push(attempt.describe()),
    });
    t.after(() => attempt.cancel());
  });
  assert.match(
    await line(),
    new RegExp(`cannot accept .* at port ${port} \\(EMFILE\\).*raise the limit \\(ulimit -n\\)`),
  );
  const { socket } = await connected;
  // The owner on the listener's side speaks only then.
  socket.write(Buffer.of(readyByte));
  socket.resume();
  assert.equal(String((await once(socket, 'data'))[0]), 'here');
  for (const text of seen)
    assert.match(text, /it closed the connection at once; perhaps it has no file descriptors left/);
  child.stdin.write('end\n');
  await once(child, 'exit');
});
