// Prefixes, and how output travels when its reader is slow or gone.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { ConsoleWriter } from './console-writer.ts';
import { LinePrefixer, linePrefix } from './prefix-lines.ts';
import { outputPath, RankOutput } from './rank-output.ts';

function prefixed(...pieces: (string | Buffer)[]): string {
  const prefixer = new LinePrefixer(() => '[0]<stdout>:');
  const parts = pieces.map((piece) => prefixer.push(Buffer.from(piece as string)));
  return Buffer.concat([...parts, prefixer.flush()]).toString();
}

test('each line gets the prefix, the last one also without an end', () => {
  assert.equal(prefixed('a\nb\n'), '[0]<stdout>:a\n[0]<stdout>:b\n');
  assert.equal(prefixed('a\nb'), '[0]<stdout>:a\n[0]<stdout>:b');
  assert.equal(prefixed('\n\n'), '[0]<stdout>:\n[0]<stdout>:\n');
  assert.equal(prefixed(''), '');
});

test('a carriage return starts a line anew, with a newline it is one end', () => {
  assert.equal(prefixed('10%\r20%\rdone\n'), '[0]<stdout>:10%\r[0]<stdout>:20%\r[0]<stdout>:done\n');
  assert.equal(prefixed('a\r\nb'), '[0]<stdout>:a\r\n[0]<stdout>:b');
  assert.equal(prefixed('a\r', '\nb'), '[0]<stdout>:a\r\n[0]<stdout>:b');
  assert.equal(prefixed('a\r', '\n', '\n'), '[0]<stdout>:a\r\n[0]<stdout>:\n');
  assert.equal(prefixed('a\r', 'b'), '[0]<stdout>:a\r[0]<stdout>:b');
});

test('a line is written when it is complete, at once', () => {
  const prefixer = new LinePrefixer(() => '>');
  assert.equal(prefixer.push(Buffer.from('one\ntw')).toString(), '>one\n');
  assert.equal(prefixer.push(Buffer.from('o\n')).toString(), '>two\n');
});

test('a character cut by the pipe comes out whole', () => {
  const bytes = Buffer.from('grüße 😀\n');
  for (let at = 1; at < bytes.length; at++) {
    assert.equal(prefixed(bytes.subarray(0, at), bytes.subarray(at)), '[0]<stdout>:grüße 😀\n');
  }
});

test('a line without end is let go in whole characters and not kept for ever', () => {
  const prefixer = new LinePrefixer(() => '>');
  const first = prefixer.push(Buffer.from(`x${'€'.repeat(40_000)}`).subarray(0, 100_000));
  assert.ok(first.length > 90_000);
  assert.ok(!first.toString().includes('\ufffd'));
  assert.equal(prefixer.push(Buffer.from('\nnext\n')).toString().includes('>next\n'), true);
});

test('however output is cut, the lines are the same', () => {
  const text = fc
    .array(fc.constantFrom('a', '€', '\n', '\r', '😀', ' '), { maxLength: 60 })
    .map((list) => list.join(''));
  fc.assert(
    fc.property(text, fc.infiniteStream(fc.integer({ min: 1, max: 9 })), (whole, cuts) => {
      const bytes = Buffer.from(whole);
      const pieces: Buffer[] = [];
      for (let at = 0; at < bytes.length; ) {
        const end = Math.min(bytes.length, at + (cuts.next().value as number));
        pieces.push(bytes.subarray(at, end));
        at = end;
      }
      assert.equal(prefixed(...pieces), prefixed(whole));
      assert.equal(prefixed(...pieces).replaceAll('[0]<stdout>:', ''), whole);
    }),
    { numRuns: 1000 },
  );
});

test('the prefix names rank and stream, and the time if wanted', () => {
  assert.equal(linePrefix(3, 'stderr'), '[3]<stderr>:');
  const noon = new Date(2020, 0, 20, 12, 0, 1);
  assert.equal(linePrefix(0, 'stdout', noon), 'Mon Jan 20 12:00:01 2020 [0]<stdout>:');
});

test('output files are padded to sort, also for one rank', () => {
  assert.equal(outputPath('logs', 0, 1, 'stdout'), 'logs/rank.0/stdout');
  assert.equal(outputPath('logs', 7, 10, 'stdout'), 'logs/rank.7/stdout');
  assert.equal(outputPath('logs', 7, 11, 'stderr'), 'logs/rank.07/stderr');
});

const options = { rank: 0, name: 'stderr', prefix: 'rank', size: 1, notice: () => undefined } as const;

test('a rank that writes faster than its reader reads is made to wait', async () => {
  let produced = 0;
  let release: (() => void) | undefined;
  const source = new Readable({
    read() {
      produced += 1;
      this.push(produced > 100 ? null : Buffer.from(`${'x'.repeat(16 * 1024)}\n`));
    },
  });
  const slow = new Writable({
    write(_bytes, _encoding, done) {
      if (release === undefined) release = done;
      else done();
    },
  });
  const output = new RankOutput(source, new ConsoleWriter(slow, () => assert.fail('not broken')), options);
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(produced < 20, `${produced} pieces were taken while the reader slept`);
  release?.();
  await output.finished;
  assert.equal(produced, 101);
});

test('if the reader has gone, onBroken is called once and output is discarded without waiting', async () => {
  let told = 0;
  const broken = new Writable({ write: (_bytes, _encoding, done) => done(new Error('EPIPE')) });
  const writer = new ConsoleWriter(broken, () => {
    told += 1;
  });
  const source = Readable.from([Buffer.from('a\n'), Buffer.from('b\n'), Buffer.from('c\n')]);
  await new RankOutput(source, writer, options).finished;
  await writer.flush();
  assert.equal(told, 1);
});

test('the end of a stream is remembered in whole lines', async () => {
  const source = Readable.from([Buffer.from(Array.from({ length: 2000 }, (_, i) => `line ${i}\n`).join(''))]);
  const output = new RankOutput(
    source,
    new ConsoleWriter(new PassThrough().resume(), () => undefined),
    options,
  );
  await output.finished;
  assert.equal(output.tail.length, 12);
  assert.equal(output.tail.at(-1), 'line 1999');
});

test('a stream that somebody else holds open is given up after silence', async () => {
  const source = new PassThrough();
  const target = new PassThrough();
  const output = new RankOutput(source, new ConsoleWriter(target, () => undefined), options);
  source.write('last words');
  await output.finishWithin(40);
  assert.equal(String(target.read()), '[0]<stderr>:last words');
});

test('the tail of a long error starts with what it says', async () => {
  const stack = Array.from({ length: 20 }, (_, i) => `    at step${i} (file.js:${i}:1)`);
  const text = ['something before', 'HorovodError: ERR_HVD_SETTING: wrong', ...stack, 'Node.js v20'].join(
    '\n',
  );
  const console = new ConsoleWriter(new PassThrough().resume(), () => undefined);
  const output = new RankOutput(Readable.from([Buffer.from(text)]), console, options);
  await output.finished;
  assert.equal(output.tail[0], 'HorovodError: ERR_HVD_SETTING: wrong');
  assert.equal(output.tail.length, 12);
});

const noTerminal = spawnSync('script', ['--version']).error && 'there is no `script` to make a terminal with';

test('a terminal that stands still does not stop the event loop', {
  skip: noTerminal ?? false,
}, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'horovod-terminal-'));
  const alive = join(directory, 'alive');
  const writer = new URL('./console-writer.js', import.meta.url).href;
  const program = `import { writeFileSync } from 'node:fs'; import { ConsoleWriter, ownOutput } from '${writer}';
    const output = ownOutput('stdout');
    void new ConsoleWriter(output, () => process.exit()).write('x'.repeat(1 << 20));
    setTimeout(() => writeFileSync('${alive}', String(process.stdout.isTTY && output.writableLength > 0)), 100);`;
  const command = `'${process.execPath}' --input-type=module --eval "${program}"`;
  // `script` makes a terminal, and waits itself because nobody reads what it writes.
  const terminal = spawn('script', ['-qec', command, '/dev/null'], { stdio: ['pipe', 'pipe', 'ignore'] });
  t.after(async () => {
    terminal.kill('SIGKILL');
    await once(terminal, 'close');
    rmSync(directory, { recursive: true });
  });
  const deadline = performance.now() + 20_000;
  const said = () => (existsSync(alive) ? readFileSync(alive, 'utf8') : '');
  while (said() === '' && performance.now() < deadline) await sleep(20);
  assert.equal(said(), 'true', 'its timer has not gone off, or it had nothing to wait for');
});
