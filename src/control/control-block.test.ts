// The control block, with real processes that die in every way.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readSync, writeSync } from 'node:fs';
import { test } from 'node:test';
import { HorovodError } from '../errors.ts';
import {
  ControlBlock,
  controlLayout,
  ownerDiedBit,
  toError,
  toErrorRecord,
  toFailureRecord,
} from './control-block.ts';
import { createMemoryFile } from './memory-file.ts';
import { parseStat } from './process-status.ts';

const moduleUrl = new URL('./control-block.js', import.meta.url).href;

interface Scope {
  after(fn: () => void): void;
}

function newBlock(t: Scope, ranks = 2): ControlBlock {
  const block = ControlBlock.create(ranks);
  t.after(() => block.close());
  return block;
}

/** A process that attaches as `rank`, says so, and then does as told on its standard input. */
async function attachedProcess(t: Scope, block: ControlBlock, rank: number): Promise<ChildProcess> {
  const script = `
    const { ControlBlock } = await import(${JSON.stringify(moduleUrl)});
    const block = ControlBlock.open(process.argv[1]);
    block.attach(${rank});
    console.log('attached');
    for await (const order of process.stdin) {
      const [verb, value] = String(order).trim().split(' ');
      if (verb === 'leave') { block.leave(${rank}); console.log('left'); }
      if (verb === 'exit') process.exit(Number(value));
      if (verb === 'throw') { block.writeLastWords(${rank}, new TypeError('boom')); process.exit(1); }
    }`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, block.path], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  await once(child.stdout as NodeJS.ReadableStream, 'data');
  return child;
}

test('a notice of the launcher is seen by every rank, and a failure leaves it as it is', () => {
  const block = ControlBlock.create(2);
  const launcher = ControlBlock.open(block.path);
  assert.equal(block.notice, false);
  block.fail({ code: 'ERR_HVD_PEER_LOST', message: 'x'.repeat(3000), rank: 1 });
  assert.deepEqual([block.notice, block.isClosed], [false, false]);
  launcher.setNotice();
  assert.deepEqual([block.notice, block.isClosed, block.failure()?.rank], [true, false, 1]);
  launcher.close();
  block.close();
});

test('a rank is absent, then attached, then left', async (t) => {
  const block = newBlock(t);
  assert.equal(block.state(1), 'absent');
  assert.equal(block.pid(1), 0);
  assert.equal(block.lossOf(1), undefined);
  const child = await attachedProcess(t, block, 1);
  assert.equal(block.state(1), 'attached');
  assert.equal(block.pid(1), child.pid);
  assert.equal(block.lossOf(1), undefined);
  child.stdin?.write('leave\n');
  await once(child.stdout as NodeJS.ReadableStream, 'data');
  assert.equal(block.state(1), 'left');
  const loss = block.lossOf(1);
  assert.equal(loss?.code, 'ERR_HVD_SHUT_DOWN');
  assert.match(String(loss?.message), /rank 1 \(pid \d+\) has shut down/);
});

test('a failure record leaves the words alone that native code writes between head and text', (t) => {
  const block = newBlock(t);
  const { closed } = controlLayout.job;
  const words = Buffer.alloc(16, 0xff);
  writeSync(block.fd, words, 0, words.length, closed);
  assert.equal(block.isClosed, true);
  block.fail({ code: 'ERR_HVD_TIMEOUT', message: 'x'.repeat(10_000) });
  const after = Buffer.alloc(words.length);
  readSync(block.fd, after, 0, after.length, closed);
  assert.deepEqual(after, words);
  assert.equal(block.failure()?.code, 'ERR_HVD_TIMEOUT');
});

test('a rank killed by a signal is a lost peer, with pid and signal, as soon as it is dead', async (t) => {
  const block = newBlock(t);
  const child = await attachedProcess(t, block, 1);
  child.kill('SIGKILL');
  let loss: HorovodError | undefined;
  // Without any exit record: this process is the parent and reaps it, so /proc may or may not still know why.
  const deadline = Date.now() + 20_000;
  while (loss === undefined && Date.now() < deadline) loss = block.lossOf(1);
  assert.equal(loss?.code, 'ERR_HVD_PEER_LOST');
  assert.equal(loss?.rank, 1);
  assert.equal(loss?.pid, child.pid);
  // The loop above never returned to the event loop, so nobody reaped the process: the reason is known.
  assert.equal(loss?.signal, 'SIGKILL');
  assert.match(String(loss?.message), /rank 1 \(pid \d+\) was killed by SIGKILL/);
});

test('a rank that exits with a code is a lost peer with that code', async (t) => {
  const block = newBlock(t);
  const child = await attachedProcess(t, block, 1);
  child.stdin?.write('exit 3\n');
  await once(child, 'exit');
  block.recordExit(1, { code: 3 });
  const loss = block.lossOf(1);
  assert.equal(loss?.code, 'ERR_HVD_PEER_LOST');
  assert.equal(loss?.exitCode, 3);
  assert.match(String(loss?.message), /rank 1 \(pid \d+\) exited with code 3/);
});

test('exit code 0 without shutdown() is a loss too, and says what is missing', async (t) => {
  const block = newBlock(t);
  const child = await attachedProcess(t, block, 1);
  child.stdin?.write('exit 0\n');
  await once(child, 'exit');
  block.recordExit(1, { code: 0 });
  assert.match(String(block.lossOf(1)?.message), /exited with code 0 without calling shutdown\(\)/);
});

test('a death that nobody recorded is reported without a reason', async (t) => {
  const block = newBlock(t);
  const child = await attachedProcess(t, block, 1);
  child.kill('SIGKILL');
  await once(child, 'exit');
  const loss = block.lossOf(1);
  assert.equal(loss?.code, 'ERR_HVD_PEER_LOST');
  assert.equal(loss?.signal, undefined);
  assert.match(String(loss?.message), /has ended/);
});

test('a rank that ended before it attached is lost by the exit record alone', (t) => {
  const block = newBlock(t);
  block.recordExit(1, { signal: 'SIGSEGV' });
  const loss = block.lossOf(1);
  assert.equal(loss?.signal, 'SIGSEGV');
  assert.match(String(loss?.message), /rank 1 was killed by SIGSEGV/);
  assert.deepEqual(block.exit(1), { signal: 'SIGSEGV' });
});

test('the last words of a rank become the cause of its loss', async (t) => {
  const block = newBlock(t);
  const child = await attachedProcess(t, block, 1);
  child.stdin?.write('throw\n');
  await once(child, 'exit');
  block.recordExit(1, { code: 1 });
  const cause = block.lossOf(1)?.cause as Error;
  assert.equal(cause.name, 'TypeError');
  assert.equal(cause.message, 'boom');
  assert.match(String(cause.stack), /TypeError: boom\n\s+at /);
});

test('a rank of another host is mirrored with its host, and never looked for in the own /proc', (t) => {
  const block = newBlock(t, 5);
  const departure = { host: 'host2', pid: process.pid, hasLeft: false };
  block.mirror(1, departure);
  block.mirror(2, {
    ...departure,
    exit: { signal: 'SIGSEGV' },
    lastWords: toErrorRecord(new TypeError('boom')),
  });
  block.mirror(3, { ...departure, hasLeft: true });
  block.mirror(4, { ...departure, host: 'h'.repeat(1000), pid: 0, exit: { code: 0 } });
  const texts = [1, 2, 3, 4].map((rank) => block.lossOf(rank)?.message);
  assert.match(String(texts[0]), /rank 1 \(pid \d+ on host2\) has ended; how is not known$/);
  assert.match(String(texts[1]), /rank 2 \(pid \d+ on host2\) was killed by SIGSEGV$/);
  assert.match(String(texts[2]), /rank 3 \(pid \d+ on host2\) has shut down/);
  assert.match(String(texts[3]), /rank 4 \(on h{255}\) exited with code 0 before init\(\)$/);
  assert.match(String(block.lossOf(2)?.cause), /boom/);
  assert.deepEqual(
    [1, 2, 3, 4].map((rank) => block.pid(rank)),
    [0, 0, 0, 0],
  );
});

test('what is known of a rank is not changed by what other hosts say later', (t) => {
  const block = newBlock(t, 3);
  block.attach(0);
  block.recordExit(1, { code: 3 });
  for (const rank of [0, 1]) block.mirror(rank, { host: 'host2', pid: 1, hasLeft: true });
  assert.equal(block.lossOf(0), undefined);
  assert.match(String(block.lossOf(1)?.message), /rank 1 exited with code 3/);
});

test('what is told to other hosts about a rank is what was recorded', (t) => {
  const block = newBlock(t, 4);
  block.attach(1);
  assert.equal(block.departureOf(0, 'host1'), undefined);
  assert.equal(block.departureOf(1, 'host1'), undefined);
  block.leave(1);
  block.recordExit(2, { code: 3 });
  block.writeLastWords(3, new TypeError('boom'));
  block.recordExit(3, { signal: 'SIGKILL' });
  const told = [1, 2, 3].map((rank) => block.departureOf(rank, 'host1'));
  assert.deepEqual(
    told.map((each) => [each?.host, each?.pid, each?.hasLeft, each?.exit, each?.lastWords?.message]),
    [
      ['host1', process.pid, true, undefined, undefined],
      ['host1', 0, false, { code: 3 }, undefined],
      ['host1', 0, false, { signal: 'SIGKILL' }, 'boom'],
    ],
  );
});

test('the life word of the native transport is believed while the process is still dying', (t) => {
  const block = newBlock(t);
  block.attach(1);
  const word = Buffer.alloc(4);
  word.writeUInt32LE(ownerDiedBit | 1234);
  writeSync(block.fd, word, 0, 4, 2 * controlLayout.pageBytes + controlLayout.rank.lifeWord);
  assert.equal(block.lossOf(1)?.code, 'ERR_HVD_PEER_LOST');
});

test('a process id that went to somebody else is not taken for the rank', (t) => {
  const block = newBlock(t);
  block.attach(1);
  const ticks = Buffer.alloc(4);
  ticks.writeUInt32LE(1);
  writeSync(block.fd, ticks, 0, 4, 2 * controlLayout.pageBytes + controlLayout.rank.startTicks);
  assert.equal(block.lossOf(1)?.code, 'ERR_HVD_PEER_LOST');
});

test('the first failure stays, and becomes the same error in every process', (t) => {
  const block = newBlock(t);
  assert.equal(block.failure(), undefined);
  const cause = new RangeError('too far');
  const record = toFailureRecord(
    new HorovodError('ERR_HVD_TIMEOUT', 'rank 1 is late', { rank: 1, tensor: 'grad', cause }),
  );
  assert.equal(block.fail(record), true);
  assert.equal(block.fail({ code: 'ERR_HVD_NATIVE', message: 'later' }), false);
  const other = ControlBlock.open(block.path);
  t.after(() => other.close());
  assert.equal(other.ranks, 2);
  const error = toError(other.failure() as NonNullable<ReturnType<ControlBlock['failure']>>);
  assert.equal(error.message, 'ERR_HVD_TIMEOUT: rank 1 is late');
  assert.equal(error.rank, 1);
  assert.equal(error.tensor, 'grad');
  assert.equal((error.cause as Error).name, 'RangeError');
  assert.equal((error.cause as Error).stack, cause.stack);
});

test('a failure whose writer died half-way is replaced by the next one', (t) => {
  const block = newBlock(t);
  const one = Buffer.alloc(4);
  one.writeUInt32LE(1);
  writeSync(block.fd, one, 0, 4, controlLayout.job.failureState);
  assert.equal(block.failure(), undefined);
  assert.equal(block.fail({ code: 'ERR_HVD_NATIVE', message: 'next' }), true);
  assert.equal(block.failure()?.message, 'next');
});

test('records of any length and content fit and parse', (t) => {
  const block = newBlock(t);
  for (const text of [
    '"'.repeat(9000),
    '\u0000'.repeat(9000),
    '€'.repeat(9000),
    '😀'.repeat(9000),
    '\ud800',
  ]) {
    const error = new Error(text);
    error.stack = text;
    block.writeLastWords(0, error);
    const words = block.lastWords(0);
    assert.equal(words?.name, 'Error');
    assert.ok(words !== undefined && words.message.length > 0);
  }
  for (const thrown of [undefined, null, 7, 'text', { a: 1 }, Symbol('s'), 10n]) {
    block.writeLastWords(0, thrown);
    assert.equal(typeof block.lastWords(0)?.message, 'string');
  }
  assert.equal(block.fail({ code: 'ERR_HVD_NATIVE', message: 'x'.repeat(100_000) }), true);
  assert.equal(block.failure()?.code, 'ERR_HVD_NATIVE');
});

test('last words name the rank that a wrapped HorovodError blames', (t) => {
  const block = newBlock(t);
  const lost = new HorovodError('ERR_HVD_PEER_LOST', 'rank 1 was killed', { rank: 1 });
  block.writeLastWords(0, new Error('training failed', { cause: lost }));
  assert.equal(block.lastWords(0)?.code, 'ERR_HVD_PEER_LOST');
  assert.equal(block.lastWords(0)?.rank, 1);
});

test('a file that is no control block is refused', (t) => {
  const file = createMemoryFile(4096, { label: 'stranger' });
  t.after(() => file.close());
  assert.throws(() => ControlBlock.open(file.path), { code: 'ERR_HVD_RENDEZVOUS' });
});

test('a program name with spaces and parentheses does not confuse the reading of /proc', () => {
  const fields = Array.from({ length: 50 }, () => '0');
  fields[0] = 'Z';
  fields[49] = '9';
  assert.deepEqual(parseStat(`12 (a) b (c)) ${fields.join(' ')}`), {
    state: 'ended',
    end: { signal: 'SIGKILL' },
  });
  fields[49] = String(3 << 8);
  assert.deepEqual(parseStat(`12 (x) ${fields.join(' ')}`), { state: 'ended', end: { code: 3 } });
});
