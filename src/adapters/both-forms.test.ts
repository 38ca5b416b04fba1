import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type BothForms, run, runSync, wait } from './both-forms.ts';

const log: string[] = [];

function* steps(x: number): BothForms<number> {
  try {
    const a = yield* wait(
      () => x + 1,
      async () => x + 1,
    );
    const b: number = yield* wait(
      () => fail(a),
      async () => fail(a),
    );
    return a + b;
  } finally {
    log.push('end');
  }
}

function fail(a: number): number {
  if (a === 1) throw new Error('one');
  return a * 10;
}

describe('code with a blocking and a promise form', () => {
  test('gives the same result in both', async () => {
    assert.equal(runSync(steps(1)), 22);
    assert.equal(await run(steps(1)), 22);
  });

  test('errors of a wait are thrown where the generator waits', async () => {
    log.length = 0;
    assert.throws(() => runSync(steps(0)), /one/);
    await assert.rejects(run(steps(0)), /one/);
    assert.deepEqual(log, ['end', 'end']);
  });

  test('the first wait begins at once', () => {
    let begun = false;
    const later = async () => {
      begun = true;
    };
    void run(wait(() => undefined, later));
    assert.ok(begun);
  });
});
