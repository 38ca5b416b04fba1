// Adapters see contexts through one narrow interface, src/adapters/context.ts, and nothing of what is behind it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { importsOf, readProduct } from '../support/sources.ts';

const imports = readProduct()
  .filter(({ path }) => path.startsWith('src/adapters/'))
  .flatMap((source) => importsOf(source).map((to) => ({ from: source.path, to })));

test('only adapters/context.ts imports context/, engine/ or observe/', () => {
  // FIXME: the collectives of TensorFlow.js and jax-js still use the default context.
  const exceptions = /^src\/adapters\/(context|(tensorflow|jax)\/[a-z-]*collective[a-z-]*)\.ts$/;
  const found = imports.filter(
    ({ from, to }) => /^src\/(context|engine|observe)\//.test(to) && !exceptions.test(from),
  );
  assert.deepEqual(
    found.map(({ from, to }) => `${from} → ${to}`),
    [],
  );
});
