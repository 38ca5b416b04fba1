import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeOptionsForRanks, resolveCommand } from './command.ts';

test('ranks get the options of Node, except for those that say what the launcher runs', () => {
  for (const [given, expected] of [
    [
      ['--max-old-space-size=512', '-r', './hook.cjs'],
      ['--max-old-space-size=512', '-r', './hook.cjs'],
    ],
    [['-e', 'run()'], []],
    [['--eval', 'run()', '--no-warnings'], ['--no-warnings']],
    [['--eval=run()'], []],
    [['-p', 'run()'], []],
    [['-pe', 'run()'], []],
    [
      ['--print', 'run()', '--import', './x.mjs'],
      ['--import', './x.mjs'],
    ],
    [
      ['--input-type', 'module', '--conditions', 'test', '--input-type=module'],
      ['--conditions', 'test'],
    ],
    [['--test', '--test-name-pattern', 'a b', '--test-only'], []],
    [['--watch', '--watch-path', 'src', '--watch-preserve-output', '--expose-gc'], ['--expose-gc']],
    [['-i'], []],
    [['--interactive'], []],
    [['--inspect', '--inspect-brk=0', '--inspect-port', '9230', '--trace-warnings'], ['--trace-warnings']],
    [
      ['--experimental-eventsource', '--import=./x.mjs'],
      ['--experimental-eventsource', '--import=./x.mjs'],
    ],
  ] as const) {
    assert.deepEqual(nodeOptionsForRanks(given), expected, given.join(' '));
  }
});

const node = (...execArgv: string[]) => ({ execPath: '/node', execArgv });

test('a script runs with this Node and its options, anything else as a program', () => {
  const script = process.argv[1] as string;
  assert.deepEqual(resolveCommand([script, 'a'], node('--expose-gc', '-e', 'run()')), {
    file: '/node',
    args: ['--expose-gc', script, 'a'],
  });
  assert.deepEqual(resolveCommand(['python3', 'train.py'], node('--expose-gc')), {
    file: 'python3',
    args: ['train.py'],
  });
});

test('the command of this package needs no PATH, and its compute workers load TypeScript', () => {
  const status = resolveCommand(['horovod', 'status', '--once'], node('--expose-gc'));
  assert.equal(status.file, '/node');
  assert.deepEqual(
    status.args.map((word) => word.replace(/^.*\//, '')),
    ['--expose-gc', 'main.js', 'status', '--once'],
  );
  const [flag, loader, command, ...rest] = resolveCommand(['horovod', 'compute-worker', 'f'], node()).args;
  assert.equal(flag, '--import');
  assert.match(loader as string, /^file:.*\/typescript\/register\.js$/);
  assert.match(command as string, /\/cli\/main\.js$/);
  assert.deepEqual(rest, ['compute-worker', 'f']);
});
