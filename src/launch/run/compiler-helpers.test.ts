import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { defineCompilerHelpers } from './compiler-helpers.ts';

/** Runs text as a rank would: it sees nothing but the helpers. */
function evaluate(text: string): unknown {
  const scope = { Promise, console };
  defineCompilerHelpers(scope, text);
  return runInNewContext(text, scope);
}

test('import() compiled to CommonJS works, for both kinds of modules', async () => {
  const compiled = `(async () => (await Promise.resolve().then(() => __importStar(require('node:path')))).basename('a/b'))()`;
  assert.equal(await evaluate(compiled), 'b');
  assert.equal(evaluate(`__importStar({ __esModule: true, default: 1 }).default`), 1);
  assert.equal(evaluate(`__importDefault({ __esModule: true, default: 1 }).default`), 1);
  assert.equal(evaluate(`__importDefault(7).default`), 7);
});

test('async functions compiled to generators wait, return and catch', async () => {
  const compiled = `(() => __awaiter(void 0, void 0, void 0, function* () {
    const one = yield Promise.resolve(1);
    try { yield Promise.reject(new Error('two')); } catch (error) { return one + error.message; }
  }))()`;
  assert.equal(await evaluate(compiled), '1two');
  const failing = `__awaiter(void 0, void 0, void 0, function* () { throw new RangeError('first'); })`;
  await assert.rejects(evaluate(failing) as Promise<unknown>, { name: 'RangeError', message: 'first' });
});

test('rest and spread of old targets work', () => {
  assert.deepEqual({ ...(evaluate(`__rest({ a: 1, b: 2, c: 3 }, ['a', 'c'])`) as object) }, { b: 2 });
  assert.deepEqual([...(evaluate(`__spreadArray([1], [2, 3], true)`) as number[])], [1, 2, 3]);
});

test('what is defined already stays as it is', () => {
  const own = () => 'own';
  const scope = { __name: own };
  defineCompilerHelpers(scope, '__name(f)');
  assert.equal(scope.__name, own);
  assert.ok(!('require' in scope), 'no require() for code that does not call it');
});
