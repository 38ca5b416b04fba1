import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Call, type Collective, promiseForm, syncForm } from './collective.ts';
import type { CollectiveOptions } from './options.ts';
import type { Submission } from './plan.ts';
import type { OperationRunner } from './runner.ts';

const members = { ranks: [0], index: 0 };

/** Adds two numbers, and notes the calls that were planned. */
function addition(calls: Call<[a: number, b?: number], CollectiveOptions>[] = []) {
  const collective: Collective<[a: number, b?: number], CollectiveOptions, number> = {
    name: 'add',
    arity: 2,
    defaultName: 'sum',
    plan(call) {
      calls.push(call);
      const [a, b = 1] = call.args;
      return { kind: 'barrier', operands: [], operations: [], result: () => a + b };
    },
    result: (sum) => `${sum}`,
  };
  return collective;
}

/** Runs every plan at once, and notes the names it is given. */
function runner(names: (string | undefined)[] = []): OperationRunner {
  const runSync = <R>(...[plan, , , name]: Submission<R>): R => {
    names.push(name);
    return plan.result();
  };
  const run = async <R>(...call: Submission<R>): Promise<R> => runSync(...call);
  return { membersOf: () => members, run, runSync } as unknown as OperationRunner;
}

test('both forms take the arguments, then the options, and return the result of the collective', async () => {
  const calls: Call<[a: number, b?: number], CollectiveOptions>[] = [];
  const add: (on: OperationRunner, a: number, b?: number, o?: CollectiveOptions) => Promise<string> =
    promiseForm(addition(calls));
  const addSync: (on: OperationRunner, a: number, b?: number, o?: CollectiveOptions) => string = syncForm(
    addition(calls),
  );
  const options = { name: 'x' };
  assert.equal(await add(runner(), 2, 3, options), '5');
  assert.equal(addSync(runner(), 2, 3, options), '5');
  assert.equal(await add(runner(), 2), '3');
  assert.equal(addSync(runner(), 2), '3');
  assert.deepEqual(
    calls.map((call) => call.what),
    ['add "x"', 'add "x"', 'add', 'add'],
  );
  assert.ok(calls.every((call) => call.members === members));
  assert.equal(calls[0]?.options, options);
});

test('the name of the options comes before the default name of the collective', () => {
  const names: (string | undefined)[] = [];
  const addSync = syncForm(addition());
  addSync(runner(names), 1, 1, { name: 'x' });
  addSync(runner(names), 1);
  assert.deepEqual(names, ['x', 'sum']);
});

test('wrong options throw in the Sync form, reject the promise form, and plan nothing', async () => {
  const calls: Call<[a: number, b?: number], CollectiveOptions>[] = [];
  const wrong = null as unknown as CollectiveOptions;
  const error = { code: 'ERR_HVD_INVALID_ARGUMENT', message: /add: options must be an object, not null/ };
  assert.throws(() => syncForm(addition(calls))(runner(), 1, 1, wrong), error);
  await assert.rejects(promiseForm(addition(calls))(runner(), 1, 1, wrong), error);
  assert.equal(calls.length, 0);
});
