// Progress in place: what the launcher makes of it, and whole jobs on a pseudo terminal (util-linux `script`).

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, test } from 'node:test';
import { fixturePath, repository } from '../../../test/support/repository.ts';
import { LinePrefixer } from './prefix-lines.ts';
import { RankOutput } from './rank-output.ts';
import { splitBar, TerminalWriter } from './terminal-writer.ts';

/** The lines on a screen after this output. */
function screenOf(output: string): string[] {
  const lines = [''];
  let column = 0;
  for (const piece of output.split(/(\p{Cc}\[2?K|[\s\S])/u).filter((part) => part !== '')) {
    const line = lines.at(-1) as string;
    if (piece === '\n') lines.push('');
    else if (piece === '\x1b[K') lines[lines.length - 1] = line.slice(0, column);
    else if (piece === '\x1b[2K') lines[lines.length - 1] = '';
    else if (piece !== '\r') lines[lines.length - 1] = line.slice(0, column) + piece + line.slice(column + 1);
    column = piece === '\n' || piece === '\r' ? 0 : piece.length === 1 ? column + 1 : column;
  }
  return lines;
}

function terminal(columns: number) {
  const stream = new PassThrough();
  const size = { columns };
  const writer = new TerminalWriter(
    stream,
    () => undefined,
    () => size.columns,
  );
  const screen = () => screenOf(text());
  let all = '';
  const text = () => {
    all += String(stream.read() ?? '');
    return all;
  };
  return { writer, screen, size };
}

describe('the terminal of the launcher', () => {
  test('shows a line in place below the lines that stay', () => {
    const { writer, screen } = terminal(20);
    void writer.write('[0]:10 %\r');
    assert.deepEqual(screen(), ['[0]:10 %']);
    void writer.write('[1]:a longer line\n');
    assert.deepEqual(screen(), ['[1]:a longer line', '[0]:10 %']);
    void writer.write('[0]:5 %\r[0]:6 %\r');
    assert.deepEqual(screen(), ['[1]:a longer line', '[0]:6 %']);
    void writer.write('\r[0]:all\n');
    assert.deepEqual(screen(), ['[1]:a longer line', '[0]:all', '']);
  });

  test('cuts it to the width the terminal has now', () => {
    const { writer, screen, size } = terminal(10);
    void writer.write('0123456789abcdef\r');
    assert.deepEqual(screen(), ['012345678']);
    size.columns = 6;
    writer.redraw();
    assert.deepEqual(screen(), ['01234']);
  });

  test('shows nothing below a line without an end, and keeps what is shown at the end', async () => {
    const { writer, screen } = terminal(20);
    void writer.write('bar\r');
    void writer.write('half a ');
    assert.deepEqual(screen(), ['half a ']);
    void writer.write('line\n');
    assert.deepEqual(screen(), ['half a line', 'bar']);
    await writer.flush();
    assert.deepEqual(screen(), ['half a line', 'bar', '']);
  });

  test('a line that ends in both, carriage return and newline, stays', () => {
    assert.deepEqual(splitBar(Buffer.from('a\r\nb\rc\n'), ''), { lines: Buffer.from('a\r\nc\n'), bar: 'b' });
  });

  test('files have only what stays, and what a rank showed ends with it', async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'hvd-terminal-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const { writer, screen } = terminal(40);
    const source = new PassThrough();
    const { createOutputDirectories } = await import('./rank-output.ts');
    createOutputDirectories(directory, 1);
    const options = { rank: 0, name: 'stdout', prefix: 'rank', directory, size: 1 } as const;
    const output = new RankOutput(source, writer, { ...options, notice: assert.fail });
    source.end('one\n10 %\r20 %\r');
    await output.finished;
    assert.deepEqual(screen(), ['[0]<stdout>:one', '']);
    assert.equal(readFileSync(join(directory, 'rank.0/stdout'), 'utf8'), '[0]<stdout>:one\n');
  });

  test('a carriage return alone gets no prefix', () => {
    const prefixer = new LinePrefixer(() => '>');
    assert.equal(prefixer.push(Buffer.from('a\r\rb\n')).toString(), '>a\r\r>b\n');
  });
});

describe('horovodrun on a terminal', () => {
  const skip =
    spawnSync('script', ['--version']).status === 0 ? false : 'the command script is not installed';

  function onTerminal(flags: string, env: NodeJS.ProcessEnv = {}) {
    const horovodrun = `${process.execPath} ${join(repository, 'bin/horovodrun.js')}`;
    const job = `${horovodrun} -np 2 ${flags} -- ${fixturePath('launch/terminal.ts')}`;
    const command = `stty cols 60; ${job} "$(tty)"`;
    const { stdout, status } = spawnSync('script', ['-qec', command, '/dev/null'], {
      encoding: 'utf8',
      env: { ...process.env, TERM: 'xterm', CI: '', ...env },
    });
    return { text: stdout.replaceAll('\r\n', '\n'), status };
  }

  function check({ text, status }: { text: string; status: number | null }): void {
    assert.equal(status, 0, text);
    // 60 columns, less the 12 of the prefix; the last one stays free.
    assert.equal(/wide 48 =+/.exec(text)?.[0].length, 47, text);
    assert.deepEqual(screenOf(text).sort(), [
      '',
      '[0]<stdout>:narrow 28',
      '[1]<stdout>:a line of rank 1',
      '[1]<stdout>:rank 1 has no terminal',
    ]);
  }

  test('rank 0 shows progress in place, as wide as the terminal is now; lines of other ranks stay above it', {
    skip,
  }, () => {
    check(onTerminal(''));
  });

  test('so does a rank 0 on another host', { skip }, (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'hvd-shell-'));
    t.after(() => rmSync(folder, { recursive: true }));
    // A remote shell that runs the command here.
    const shell = join(folder, 'shell');
    writeFileSync(shell, '#!/bin/sh\nshift\nexec /bin/sh -c "$1"\n');
    chmodSync(shell, 0o755);
    check(onTerminal('-H far.invalid:2', { OMPI_MCA_plm_rsh_agent: shell }));
  });
});
