import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LogLine } from '../messages.ts';
import { isError, passes, splitMatches, stretchesOf } from './log-text.ts';

const line: LogLine = { id: 1, at: 0, rank: 2, stream: 'stdout', text: 'Epoch 3 begins' };
const all = { rank: undefined, search: '', errorsOnly: false };

describe('the filter of the logs', () => {
  test('goes by rank, text and errors', () => {
    assert.ok(passes(line, all));
    assert.ok(passes(line, { ...all, rank: 2, search: 'epoch' }));
    assert.ok(!passes(line, { ...all, rank: 1 }));
    assert.ok(!passes(line, { ...all, search: 'loss' }));
    assert.ok(!passes(line, { ...all, errorsOnly: true }));
    assert.ok(passes({ ...line, rank: -1 }, { ...all, rank: -1 }));
  });

  const table: readonly (readonly [LogLine['stream'], string, boolean])[] = [
    ['stdout', 'TypeError: x is not a function', true],
    ['stdout', 'FATAL: no space left', true],
    ['stdout', 'mean absolute errors: 0.2', false],
    ['stdout', 'loss 0.3', false],
    ['stderr', '    at train (train.ts:7:1)', true],
    ['stderr', '(node:7) Warning: deprecated', false],
  ];
  for (const [stream, text, expected] of table) {
    test(`${stream} "${text.trim()}" is ${expected ? 'an' : 'no'} error`, () => {
      assert.equal(isError({ ...line, stream, text }), expected);
    });
  }
});

describe('colours in the text', () => {
  test('become styles, and end where they are ended', () => {
    assert.deepEqual(stretchesOf('a \u001b[1;31mred\u001b[0m b'), [
      { text: 'a ', style: '' },
      { text: 'red', style: 'ansi-bold ansi-red' },
      { text: ' b', style: '' },
    ]);
    assert.deepEqual(stretchesOf('\u001b[92mok\u001b[39m.'), [
      { text: 'ok', style: 'ansi-green' },
      { text: '.', style: '' },
    ]);
  });

  test('of 256 and more are left out with all their numbers, and so is everything that moves a cursor', () => {
    assert.deepEqual(stretchesOf('\u001b[38;5;31mx\u001b[48;2;1;31;3my'), [
      { text: 'x', style: '' },
      { text: 'y', style: '' },
    ]);
    assert.equal(
      stretchesOf('\u001b[2K\u001b[1Gdone\u0007\u001b]0;title\u0007!')
        .map(({ text }) => text)
        .join(''),
      'done!',
    );
  });

  test('markup is text', () => {
    assert.deepEqual(stretchesOf('<b>x</b>'), [{ text: '<b>x</b>', style: '' }]);
  });
});

describe('matches of a search', () => {
  test('are every second piece', () => {
    assert.deepEqual(splitMatches('Loss and loss', 'LOSS'), ['', 'Loss', ' and ', 'loss', '']);
    assert.deepEqual(splitMatches('none', 'x'), ['none']);
    assert.deepEqual(splitMatches('any', ''), ['any']);
  });

  test('are not marked at all where small letters are longer than large ones', () => {
    assert.deepEqual(splitMatches('İx', 'x'), ['İx']);
  });
});
