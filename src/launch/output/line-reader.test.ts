import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LineReader } from './line-reader.ts';

function linesOf(...pieces: (string | Buffer)[]): string[] {
  const reader = new LineReader();
  return [...pieces.flatMap((piece) => reader.push(Buffer.from(piece as string))), ...reader.flush()];
}

test('lines come whole, whatever the pieces are', () => {
  const text = Buffer.from('eins\nzwei 😀\r\n\ndrei');
  for (let at = 0; at <= text.length; at++) {
    assert.deepEqual(linesOf(text.subarray(0, at), text.subarray(at)), ['eins', 'zwei 😀', '', 'drei']);
  }
});

test('of what is shown in place, the last counts', () => {
  assert.deepEqual(linesOf('10 %\r20 %\r', '30 %\r\nnext\n'), ['30 %', 'next']);
  assert.deepEqual(linesOf('10 %\r', '20 %\r'), ['20 %']);
  assert.deepEqual(linesOf('10 %', '\r20 %', '\n'), ['20 %']);
});

test('megabytes without an end of line come in pieces', () => {
  const lines = linesOf('x'.repeat(3_000_000), 'y\n', `${'z'.repeat(40_000)}\n`);
  assert.equal(lines.join('').length, 3_040_001);
  assert.ok(lines.every((line) => line.length <= 16 * 1024));
  assert.equal(lines.at(-1)?.at(-1), 'z');
});
