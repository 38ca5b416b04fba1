import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCommandLine } from './command-line.ts';

const noticesFor = (...words: string[]) => parseCommandLine(['-np', '2', ...words], {}).notices;

test('a flag of horovodrun after the script gets a notice that says where it goes', () => {
  assert.deepEqual(noticesFor('train.ts', '--timeline-filename', 'x.json'), [
    '--timeline-filename stands after the command, so train.ts gets it and horovodrun does not. Put it before train.ts; ' +
      'if it is meant for train.ts, write -- before train.ts.',
  ]);
  assert.equal(noticesFor('train.ts', '--timeline-filename=x.json', '-np', '4', '--autotune').length, 3);
});

test('flags that belong to the script get none', () => {
  for (const words of [
    ['train.ts', '--epochs', '3', '-p', '1', '--verbose', '--help', '-v'],
    ['--', 'train.ts', '--timeline-filename', 'x.json'],
    ['node', 'train.js', '--', '--autotune'],
    ['--timeline-filename', 'x.json', 'train.ts'],
  ]) {
    assert.deepEqual(noticesFor(...words), [], words.join(' '));
  }
});
