// Adapters see contexts through one narrow interface, src/adapters/context.ts, and nothing of what is behind it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { importsOf, readProduct } from '../support/sources.ts';

const imports = readProduct()
  .filter(({ path }) => path.startsWith('src/adapters/'))
  .flatMap((source) => importsOf(source).map((to) => ({ from: source.path, to })));

test('only adapters/context.ts imports context/, engine/ or observe/', () => {
  const found = imports.filter(
    ({ from, to }) => /^src\/(context|engine|observe)\//.test(to) && from !== 'src/adapters/context.ts',
  );
  assert.deepEqual(
    found.map(({ from, to }) => `${from} → ${to}`),
    [],
  );
});
