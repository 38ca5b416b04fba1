import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runInThisContext } from 'node:vm';
import { ownerOfFile, showCaller } from './caller.ts';
import { fromCaller, HorovodError } from './errors.ts';

/** Code of a user, which calls what it is given; this file is part of the package. */
function userCode<F>(source: string, filename = '/home/me/train.mjs'): F {
  return runInThisContext(`(${source})`, { filename }) as F;
}

const call = userCode<(f: () => unknown) => unknown>('function train(f) { return f(); }');

function deep(times: number): never {
  if (times > 0) return deep(times - 1);
  throw new HorovodError('ERR_HVD_MISMATCH', 'shapes differ.\n    at no line of code');
}

function stackOf(action: () => unknown): string[] {
  try {
    action();
  } catch (error) {
    return String((error as Error).stack).split('\n');
  }
  return assert.fail('nothing was thrown');
}

describe('the stack of a HorovodError', () => {
  test('begins at the call into this package, however deep it was made', () => {
    const [first, second, third = ''] = stackOf(() => call(() => deep(20)));
    assert.equal(first, 'HorovodError: ERR_HVD_MISMATCH: shapes differ.');
    assert.equal(second, '    at no line of code');
    assert.match(third, /^ {4}at train \(\/home\/me\/train\.mjs:1:\d+\)$/);
  });

  test('reaches the line that awaits it, if a timer made it', async () => {
    const waits = userCode<(f: () => Promise<unknown>) => Promise<unknown>>(
      'async function train(f) {\n\n  await f();\n}',
    );
    const form = async () => {
      try {
        await new Promise((_, reject) =>
          setImmediate(() => reject(new HorovodError('ERR_HVD_PEER_LOST', 'rank 1 died.'))),
        );
      } catch (error) {
        throw fromCaller(error);
      }
    };
    const error = (await waits(form).then(undefined, (thrown: unknown) => thrown)) as Error;
    assert.match(error.stack ?? '', /rank 1 died\.\n {4}at async train \(\/home\/me\/train\.mjs:3:\d+\)/);
  });

  test('stays that of the first call if the same error ends several', () => {
    const shared = new HorovodError('ERR_HVD_PEER_LOST', 'rank 1 died.');
    const next = userCode<(f: () => unknown) => unknown>('function next(f) { return f(); }');
    const again = () => {
      throw fromCaller(shared);
    };
    for (const each of [call, next]) assert.match(stackOf(() => each(again))[1] ?? '', / at train /);
  });

  test('reaches beyond the frames of a framework, whatever the limit', () => {
    const framework = userCode<(f: () => unknown, times: number) => unknown>(
      'function fit(f, times) { return times > 0 ? fit(f, times - 1) : f(); }',
      '/home/me/node_modules/framework/index.js',
    );
    const before = Error.stackTraceLimit;
    const lines = stackOf(() => call(() => framework(() => deep(3), 20)));
    assert.match(lines[2] ?? '', / at fit /);
    assert.ok(lines.some((line) => line.includes('/home/me/train.mjs')));
    assert.equal(Error.stackTraceLimit, before);
  });

  test('is left alone where nobody called, or where stacks are turned off', () => {
    const error = new Error('of ours');
    const { stack } = error;
    assert.equal(
      showCaller(error, () => 'own'),
      false,
    );
    assert.equal(error.stack, stack);
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    try {
      assert.equal(
        call(() => showCaller(error)),
        false,
      );
    } finally {
      Error.stackTraceLimit = stackTraceLimit;
    }
  });
});

test('files are of this package, of Node, of another package or of the user', () => {
  const owner = ownerOfFile('file:///home/me/node_modules/horovod/dist/');
  const owners = {
    'file:///home/me/node_modules/horovod/dist/errors.js': 'own',
    '/home/me/node_modules/horovod/dist/errors.js': 'own',
    'node:internal/timers': 'node',
    '': 'node',
    '/home/me/node_modules/other/index.js': 'package',
    'file:///home/me/train.mjs': 'user',
  };
  for (const [file, expected] of Object.entries(owners)) assert.equal(owner(file), expected, file);
});
