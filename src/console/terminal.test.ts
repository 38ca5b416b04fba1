import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { showsInPlace } from '../settings/environment.ts';
import { disregardUnsizedTerminals, terminalOf } from './terminal.ts';

function streamOf(given: { isTTY?: boolean; columns?: number }) {
  const stream = {
    ...given,
    text: '',
    write(piece: string) {
      stream.text += piece;
    },
  };
  return stream;
}

test('a terminal of CI, or one that cannot, shows nothing in place', () => {
  const stream = streamOf({ isTTY: true, columns: 80 });
  assert.equal(terminalOf(stream, undefined, false), undefined);
  const shows = (env: NodeJS.ProcessEnv) => showsInPlace(env);
  assert.deepEqual(
    [
      shows({ TERM: 'xterm' }),
      shows({ CI: 'false' }),
      shows({ CI: 'true' }),
      shows({ CI: '1' }),
      shows({ TERM: 'dumb' }),
    ],
    [true, true, false, false, false],
  );
});

test('a pipe is no terminal, and neither is the pseudo terminal of mpirun, which has no columns', () => {
  assert.equal(terminalOf(streamOf({})), undefined);
  assert.equal(terminalOf(streamOf({ isTTY: true, columns: 0 })), undefined);
  assert.equal(terminalOf(streamOf({}), ''), undefined);
  const streams = [
    { isTTY: true, columns: 0 },
    { isTTY: true, columns: 80 },
  ];
  disregardUnsizedTerminals(streams);
  assert.deepEqual(
    streams.map(({ isTTY }) => isTTY),
    [false, true],
  );
});

test('a terminal of the process replaces the line', () => {
  const stream = streamOf({ isTTY: true, columns: 10 });
  const terminal = terminalOf(stream);
  terminal?.show('0123456789abc');
  terminal?.print('a line that stays, as it is');
  assert.equal(stream.text, '\r\x1b[2K012345678\r\x1b[2Ka line that stays, as it is\n');
  assert.equal(terminalOf(streamOf({ isTTY: true }))?.columns, 80);
});

test('the terminal of horovodrun gets lines that end in a carriage return, as wide as it is now', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-terminal-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'columns');
  writeFileSync(file, '8\0\0\0');
  const stream = streamOf({});
  const terminal = terminalOf(stream, file);
  terminal?.show('0123456789');
  writeFileSync(file, '40\0\0');
  terminal?.show('0123456789');
  terminal?.print('done');
  assert.equal(stream.text, '0123456\r0123456789\r\rdone\n');
  assert.equal(terminalOf(stream, join(folder, 'nothing')), undefined);
});
