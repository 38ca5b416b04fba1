// Watches of several hosts, with real control blocks and sockets of this machine: in threads of this process, and in
// processes that are killed, stopped and blocked.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { describe, test } from 'node:test';
import { ControlBlock, type FailureRecord } from '../../control/control-block.ts';
import { HorovodError } from '../../errors.ts';
import { type Connection, readyByte } from '../../net/connection.ts';
import { connectMesh } from '../../net/mesh/connect.ts';
import { MeshListener } from '../../net/mesh/listener.ts';
import { SealedFrames } from '../../net/sealed-frames.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { type HostWatch, startWatch, type WatchedHost, type WatcherOptions } from './host-watch.ts';
import { encodeMessage, maxFrameBytes } from './messages.ts';

interface Scope {
  after(fn: () => void | Promise<void>): void;
}

const hosts: readonly WatchedHost[] = [
  { rank: 0, hostname: 'host1', ranks: [0, 1] },
  { rank: 2, hostname: 'host2', ranks: [2, 3] },
  { rank: 4, hostname: 'host3', ranks: [4] },
];
const secret = JobSecret.generate();
const common = { secret, jobId: 'job', channel: 'watch', networkInterfaces: ['lo'], peerTimeoutMs: 10_000 };
const wait = { timeoutMs: 20_000 };

interface Host {
  readonly block: ControlBlock;
  readonly watch: HostWatch;
}

async function startHost(
  t: Scope,
  host: WatchedHost,
  among: readonly WatchedHost[],
  options: Partial<WatcherOptions> = {},
): Promise<Host> {
  const block = ControlBlock.create(5);
  for (const rank of host.ranks) block.attach(rank);
  const watch = await startWatch({
    ...common,
    controlBlockPath: block.path,
    rank: host.rank,
    localRanks: host.ranks,
    hostname: host.hostname,
    peers: among.filter((each) => each !== host),
    ...options,
  });
  t.after(async () => {
    await watch.destroy();
    block.close();
  });
  return { block, watch };
}

/** Watches of the first `count` hosts, connected. */
async function startHosts(t: Scope, count: number, options: Partial<WatcherOptions> = {}): Promise<Host[]> {
  const among = hosts.slice(0, count);
  const started = await Promise.all(among.map((host) => startHost(t, host, among, options)));
  const all = started.map(({ watch }) => watch.candidates);
  await Promise.all(
    started.map(({ watch }, place) =>
      watch.connect(
        all.filter((_, each) => each !== place),
        wait,
      ),
    ),
  );
  return started;
}

/** Against hanging only. */
const patienceMs = 20_000;

async function until<T>(what: string, look: () => T | undefined): Promise<T> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const found = look();
    if (found !== undefined) return found;
    assert.ok(performance.now() < deadline, `${what}: not within ${patienceMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const failureOn = ({ block }: Host): Promise<FailureRecord> => until('a failure', () => block.failure());

/** Another word from `from` has come to `to`: everything said before has been heard. */
async function hearsEverything(from: Host, to: Host, rank: number): Promise<void> {
  from.block.recordExit(rank, { code: 9 });
  await until(`the end of rank ${rank}`, () => to.block.exit(rank));
}

describe('what happens on one host is known on all', () => {
  test('a failure; the first one stays', async (t) => {
    const [first, second, third] = (await startHosts(t, 3)) as [Host, Host, Host];
    second.block.fail({ code: 'ERR_HVD_MISMATCH', message: 'dtypes differ', rank: 3 });
    for (const host of [first, third]) {
      const record = await failureOn(host);
      assert.deepEqual({ ...record }, { code: 'ERR_HVD_MISMATCH', message: 'dtypes differ', rank: 3 });
    }
    assert.equal(second.block.failure()?.message, 'dtypes differ');
    first.block.fail({ code: 'ERR_HVD_TIMEOUT', message: 'later' });
    await third.watch.kill();
    await hearsEverything(first, second, 1);
    assert.equal(second.block.failure()?.code, 'ERR_HVD_MISMATCH');
    assert.equal(first.block.failure()?.code, 'ERR_HVD_MISMATCH');
  });

  test('a failure that names a process names its host too', async (t) => {
    const [first, second] = (await startHosts(t, 2)) as [Host, Host];
    const message = 'rank 3 (pid 5) was killed by SIGKILL';
    second.block.fail({ code: 'ERR_HVD_PEER_LOST', message, rank: 3, pid: 5, signal: 'SIGKILL' });
    assert.equal((await failureOn(first)).message, 'rank 3 (pid 5 on host2) was killed by SIGKILL');
  });

  test('the death of a rank, with host, reason and last words, and without any pid of another host', async (t) => {
    const [first, second] = (await startHosts(t, 2)) as [Host, Host];
    second.block.writeLastWords(3, new TypeError('boom'));
    second.block.recordExit(3, { signal: 'SIGKILL' });
    const loss = await until('the loss of rank 3', () => first.block.lossOf(3));
    assert.equal(loss.code, 'ERR_HVD_PEER_LOST');
    assert.equal(loss.signal, 'SIGKILL');
    assert.equal(loss.rank, 3);
    assert.equal(loss.pid, process.pid);
    assert.match(loss.message, /rank 3 \(pid \d+ on host2\) was killed by SIGKILL/);
    assert.equal((loss.cause as Error).name, 'TypeError');
    assert.equal(first.block.pid(3), 0);
    assert.equal(first.block.failure(), undefined);
    assert.equal(first.block.lossOf(2), undefined);
  });

  test('a shutdown; the watch goes on for the ranks that have not left', async (t) => {
    const [first, second] = (await startHosts(t, 2)) as [Host, Host];
    second.block.leave(2);
    second.watch.stop();
    second.watch.stop();
    const left = await until('that rank 2 left', () => first.block.lossOf(2));
    assert.equal(left.code, 'ERR_HVD_SHUT_DOWN');
    assert.match(left.message, /rank 2 \(pid \d+ on host2\) has shut down/);
    assert.equal(first.block.lossOf(3), undefined);
    // Both ways.
    first.block.leave(1);
    await until('that rank 1 left', () => second.block.lossOf(1));
    second.block.leave(3);
    await until('that rank 3 left', () => first.block.lossOf(3));
    assert.equal(first.block.failure(), undefined);
  });

  test('what has to be known at once is told before tellNow() returns', async (t) => {
    const [first, second] = (await startHosts(t, 2, { pollMs: 60_000 })) as [Host, Host];
    second.block.fail({ code: 'ERR_HVD_MISMATCH', message: 'dtypes differ' });
    second.watch.tellNow();
    await second.watch.kill();
    assert.equal((await failureOn(first)).code, 'ERR_HVD_MISMATCH');
  });
});

describe('a host that is lost', () => {
  test('hangs up without a goodbye: a failure that names it, on all others', async (t) => {
    const [first, second, third] = (await startHosts(t, 3)) as [Host, Host, Host];
    await second.watch.kill();
    for (const host of [first, third]) {
      const record = await failureOn(host);
      assert.equal(record.code, 'ERR_HVD_PEER_LOST');
      assert.equal(record.rank, 2);
      assert.match(record.message, /^the connection to host2 \(ranks 2, 3\) ended without a goodbye/);
    }
  });

  test('says goodbye: no failure', async (t) => {
    const [first, second, third] = (await startHosts(t, 3)) as [Host, Host, Host];
    third.block.leave(4);
    third.watch.stop();
    await Promise.all([first, second].map(({ block }) => until('the goodbye', () => block.lossOf(4))));
    await third.watch.destroy();
    await hearsEverything(first, second, 1);
    await hearsEverything(second, first, 3);
    assert.deepEqual([first.block.failure(), second.block.failure()], [undefined, undefined]);
  });

  test('gives up its start, with ranks that go on: no failure either, another cause will be told', async (t) => {
    const [first, second, third] = (await startHosts(t, 3)) as [Host, Host, Host];
    await third.watch.destroy();
    await hearsEverything(first, second, 1);
    await hearsEverything(second, first, 3);
    assert.deepEqual([first.block.failure(), second.block.failure()], [undefined, undefined]);
  });

  test('answers, but says nothing any more: silence, which a third host hears of too', async (t) => {
    const among = hosts;
    const options = { peerTimeoutMs: 2000 };
    const [first, second] = (await Promise.all(
      [hosts[0], hosts[1]].map((host) => startHost(t, host as WatchedHost, among, options)),
    )) as [Host, Host];
    const mute = await MeshListener.open({ ...common, purpose: 'watch', rank: 4 });
    t.after(() => mute.close());
    const candidates = [first.watch.candidates, second.watch.candidates, mute.candidates];
    const [sockets] = await Promise.all([
      connectMesh({
        listener: mute,
        channel: 'watch',
        ranks: [0, 2, 4],
        index: 2,
        peers: [0, 1],
        candidates,
        ...wait,
      }),
      first.watch.connect([candidates[1] ?? [], candidates[2] ?? []], wait),
      second.watch.connect([candidates[0] ?? [], candidates[2] ?? []], wait),
    ]);
    for (const mesh of sockets) mesh?.socket.write(Buffer.from([readyByte]));
    t.after(() => {
      for (const mesh of sockets) mesh?.socket.destroy();
    });
    for (const host of [first, second]) {
      const record = await failureOn(host);
      assert.equal(record.rank, 4);
      assert.match(record.message, /^host3 \(rank 4\) has not been heard for 2 s: the machine is frozen, or/);
      assert.match(record.message, /Look at host3 and the network between it and host[12]/);
    }
  });
});

test('a peer that knows the secret may say nonsense, and nothing about ranks of others', async (t) => {
  const among = hosts.slice(0, 2);
  const [host1, host2] = among as [WatchedHost, WatchedHost];
  const gone = { host: 'host2', pid: 1, hasLeft: true };
  for (const [said, isNonsense] of [
    [encodeMessage({ type: 'departure', rank: 1, departure: gone }), false],
    [encodeMessage({ type: 'departure', rank: 77, departure: gone }), false],
    [Buffer.from([0xff, 0xff, 0xff, 0xff]), true],
    [Buffer.from([0, 0, 0, 0]), true],
    ['{}', true],
  ] as const) {
    const { block, watch } = await startHost(t, host1, among);
    const listener = await MeshListener.open({ ...common, purpose: 'watch', rank: host2.rank });
    t.after(() => listener.close());
    const [[, connection]] = await Promise.all([
      connectMesh({
        listener,
        channel: 'watch',
        ranks: [2, 0],
        index: 0,
        peers: [1],
        candidates: [[], watch.candidates],
        ...wait,
      }),
      watch.connect([listener.candidates], wait),
    ]);
    const { socket, keysFor } = connection as Connection;
    const frames = new SealedFrames(keysFor('frames'), maxFrameBytes);
    socket.on('error', () => undefined);
    socket.resume();
    socket.write(Buffer.from([readyByte]));
    socket.write(typeof said === 'string' ? frames.seal(said) : said);
    // Departures of its own ranks come after the others, on the same connection.
    const own = { host: 'host2', pid: 1, hasLeft: false, exit: { code: 1 } };
    if (!isNonsense) socket.write(frames.seal(encodeMessage({ type: 'departure', rank: 3, departure: own })));
    if (isNonsense) {
      assert.match(
        (await until('a failure', () => block.failure())).message,
        /host2 .* ended .*\(it sent an invalid message\)/,
      );
    } else {
      await until('the end of rank 3', () => block.exit(3));
      assert.equal(block.state(1), 'attached');
      assert.equal(block.failure(), undefined);
    }
    socket.destroy();
    await watch.destroy();
  }
});

describe('starting', () => {
  test('errors cross the thread with their code', async (t) => {
    const [host1, host2] = hosts as [WatchedHost, WatchedHost];
    const among = [host1, host2];
    const { watch } = await startHost(t, host2, among);
    const late = await errorOf(watch.connect([['127.0.0.1:1']], { timeoutMs: 200 }));
    assert.equal(late.code, 'ERR_HVD_TIMEOUT');
    assert.match(
      late.message,
      /rank 2 on host2 .*rank 0 on host1: tried 127\.0\.0\.1:1 \(nothing is listening there\)/,
    );
    const another = await startHost(t, host2, among);
    const abort = new AbortController();
    const aborted = errorOf(another.watch.connect([['127.0.0.1:1']], { ...wait, signal: abort.signal }));
    abort.abort();
    assert.equal((await aborted).code, 'ERR_HVD_ABORTED');
    const without = { ...common, rank: 0, localRanks: [0], hostname: 'host1', peers: [] };
    const noBlock = await errorOf(startWatch({ ...without, controlBlockPath: '/nonexistent' }));
    assert.equal(noBlock.code, 'ERR_HVD_SHARED_MEMORY');
  });

  async function errorOf(promise: Promise<unknown>): Promise<HorovodError> {
    const error = await promise.then(
      () => assert.fail('no error'),
      (thrown: unknown) => thrown,
    );
    assert.ok(HorovodError.is(error), String(error));
    return error;
  }
});

// Silence is measured against limits that a crowded machine keeps; so that it does not take long, all at once.
describe('real processes', { concurrency: true }, () => {
  test('SIGKILL is seen by the end of the connection, not by silence', async (t) => {
    const { here, child } = await withChild(t);
    child.kill('SIGKILL');
    const record = await failureOn(here);
    assert.match(record.message, /^the connection to host2 \(ranks 2, 3\) ended without a goodbye/);
  });

  test('a stopped process is silent; once it goes on it learns that others have given it up', async (t) => {
    const { here, child, nextLine } = await withChild(t, { peerTimeoutMs: 2000 });
    child.kill('SIGSTOP');
    assert.match((await failureOn(here)).message, /^host2 \(ranks 2, 3\) has not been heard for 2 s/);
    child.kill('SIGCONT');
    assert.match(await nextLine(), /^failure host2 \(ranks 2, 3\) has not been heard/);
  });

  test('a process whose main thread is blocked is alive', async (t) => {
    const { here, child, nextLine } = await withChild(t, { peerTimeoutMs: 3000 });
    child.stdin?.write('block 4500\n');
    assert.equal(await nextLine(), 'blocked');
    assert.equal(here.block.failure(), undefined);
  });

  test('when all are stopped at once, as by a suspended machine, nobody is to blame', async (t) => {
    // Two others, since this process cannot stop itself.
    const [one, other] = await childrenOf(t, [hosts[0] as WatchedHost, hosts[1] as WatchedHost], 3000);
    for (const { child } of [one, other]) child.kill('SIGSTOP');
    await new Promise((resolve) => setTimeout(resolve, 4000));
    for (const { child } of [one, other]) child.kill('SIGCONT');
    for (const { child, nextLine } of [one, other]) {
      child.stdin?.write('block 500\n');
      assert.equal(await nextLine(), 'blocked');
    }
  });

  test('one that exits says with what code, and what it dies of', async (t) => {
    const first = await withChild(t);
    first.child.stdin?.write('exit 3\n');
    const loss = await until('the exit', () => first.here.block.lossOf(2));
    assert.match(loss.message, /rank 2 \(pid \d+ on host2\) exited with code 3/);
    const second = await withChild(t);
    second.child.stdin?.write('throw\n');
    const death = await until('the error', () => second.here.block.lossOf(2));
    assert.equal(death.exitCode, 1);
    assert.match(String(death.cause), /RangeError: thrown by rank 2/);
    await once(second.child, 'exit');
    assert.equal(second.here.block.failure(), undefined);
  });

  test('a watch does not keep its process alive', async (t) => {
    const { here, child } = await withChild(t);
    child.stdin?.end();
    assert.deepEqual(await once(child, 'exit'), [0, null]);
    const loss = await until('the exit', () => here.block.lossOf(2));
    assert.match(loss.message, /exited with code 0 without calling shutdown\(\)/);
  });
});

interface Child {
  readonly child: ChildProcess;
  nextLine(): Promise<string>;
}

/** A process that is the watch of a host, and does as told on its standard input. */
async function startChild(
  t: Scope,
  host: WatchedHost,
  peers: readonly WatchedHost[],
  peerTimeoutMs: number,
): Promise<Child> {
  const { secret: _, ...rest } = common;
  const options = {
    ...rest,
    rank: host.rank,
    localRanks: host.ranks,
    hostname: host.hostname,
    peers,
    peerTimeoutMs,
  };
  const script = `
    const base = ${JSON.stringify(new URL('../../', import.meta.url).href)};
    const { ControlBlock } = await import(base + 'control/control-block.js');
    const { startWatch } = await import(base + 'context/host-watch/host-watch.js');
    const { JobSecret } = await import(base + 'settings/job-secret.js');
    const options = JSON.parse(process.argv[1]);
    const block = ControlBlock.create(5);
    for (const rank of options.localRanks) block.attach(rank);
    const secret = JobSecret.fromHex(process.env.SECRET);
    const watch = await startWatch({ ...options, secret, controlBlockPath: block.path });
    process.on('uncaughtExceptionMonitor', (error) => block.writeLastWords(options.rank, error));
    console.log(JSON.stringify(watch.candidates));
    let hasFailed = false;
    const look = setInterval(() => {
      const failure = block.failure();
      if (failure !== undefined && !hasFailed) console.log('failure ' + failure.message);
      hasFailed = failure !== undefined;
    }, 20);
    for await (const order of process.stdin) {
      const [verb, value] = String(order).trim().split(' ');
      if (verb === 'connect') { await watch.connect(JSON.parse(value), { timeoutMs: 20_000 }); console.log('connected'); }
      if (verb === 'block') {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(value));
        const failure = block.failure();
        console.log(failure === undefined ? 'blocked' : 'failure ' + failure.message);
      }
      if (verb === 'exit') process.exit(Number(value));
      if (verb === 'throw') throw new RangeError('thrown by rank ' + options.rank);
    }
    clearInterval(look);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, JSON.stringify(options)], {
    env: { ...process.env, SECRET: secret.revealForEnvironment() },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stderr?.resume();
  t.after(() => {
    child.kill('SIGKILL');
  });
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  return { child, nextLine: async () => String((await lines.next()).value) };
}

/** This process as host1, a child as host2, connected. */
async function withChild(
  t: Scope,
  options: { peerTimeoutMs: number } = common,
): Promise<Child & { here: Host }> {
  const [host1, host2] = hosts as [WatchedHost, WatchedHost];
  const [here, there] = await Promise.all([
    startHost(t, host1, [host1, host2], { peerTimeoutMs: options.peerTimeoutMs }),
    startChild(t, host2, [host1], options.peerTimeoutMs),
  ]);
  const candidates = JSON.parse(await there.nextLine()) as string[];
  there.child.stdin?.write(`connect ${JSON.stringify([here.watch.candidates])}\n`);
  await Promise.all([here.watch.connect([candidates], wait), there.nextLine()]);
  return { here, ...there };
}

async function childrenOf(
  t: Scope,
  among: readonly [WatchedHost, WatchedHost],
  peerTimeoutMs: number,
): Promise<[Child, Child]> {
  const [one, other] = (await Promise.all(
    among.map((host) =>
      startChild(
        t,
        host,
        among.filter((each) => each !== host),
        peerTimeoutMs,
      ),
    ),
  )) as [Child, Child];
  const candidates = [await one.nextLine(), await other.nextLine()];
  one.child.stdin?.write(`connect [${candidates[1]}]\n`);
  other.child.stdin?.write(`connect [${candidates[0]}]\n`);
  assert.deepEqual([await one.nextLine(), await other.nextLine()], ['connected', 'connected']);
  return [one, other];
}
