import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CellOutput, isDenoCell } from './cell-output.ts';

function collecting() {
  const printed: [string, string][] = [];
  const take =
    (name: string) =>
    (...[format, text]: unknown[]) => {
      assert.equal(format, '%s', 'text of ranks is no format');
      printed.push([name, String(text)]);
    };
  return { printed, console: { log: take('log'), error: take('error') } };
}

describe('output in a cell', () => {
  test('is printed by whole lines, several at once', () => {
    const { printed, console } = collecting();
    const output = new CellOutput('stdout', console);
    output.write('one\ntwo\nthr');
    output.write('ee\n');
    assert.deepEqual(printed, [
      ['log', 'one\ntwo'],
      ['log', 'three'],
    ]);
  });

  test('of stderr goes to stderr of the cell', () => {
    const { printed, console } = collecting();
    new CellOutput('stderr', console).write('100%d\n');
    assert.deepEqual(printed, [['error', '100%d']]);
  });

  test('keeps characters whole that come in two pieces', () => {
    const { printed, console } = collecting();
    const output = new CellOutput('stdout', console);
    const bytes = Buffer.from('größe\n');
    output.write(bytes.subarray(0, 3));
    output.write(bytes.subarray(3));
    assert.deepEqual(printed, [['log', 'größe']]);
  });

  test('shows a line without an end at a flush, and at the end', () => {
    const { printed, console } = collecting();
    const output = new CellOutput('stdout', console);
    output.write('50 %');
    output.write('');
    output.end('done');
    assert.deepEqual(
      printed.map(([, text]) => text),
      ['50 %', 'done'],
    );
  });
});

test('a cell of Deno is known by Deno.jupyter, which throws elsewhere', () => {
  assert.equal(isDenoCell({}), false);
  assert.equal(isDenoCell({ Deno: {} }), false);
  const Deno = Object.defineProperty({}, 'jupyter', {
    get: () => {
      throw new Error('Deno.jupyter is only available in `deno jupyter` subcommand.');
    },
  });
  assert.equal(isDenoCell({ Deno }), false);
  assert.equal(isDenoCell({ Deno: { jupyter: {} } }), true);
});
