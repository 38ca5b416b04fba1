// Adapters see contexts through one narrow interface, src/adapters/context.ts, and nothing of what is behind it. The file systems of
// the process are beside it, so that adapters without model files do not load them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { importsOf, readProduct } from '../support/sources.ts';

const imports = readProduct()
  .filter(({ path }) => path.startsWith('src/adapters/'))
  .flatMap((source) => importsOf(source).map((to) => ({ from: source.path, to })));

const doors = ['src/adapters/context.ts', 'src/adapters/file-systems.ts'];

test('only adapters/context.ts and file-systems.ts import context/, engine/ or observe/', () => {
  const found = imports.filter(
    ({ from, to }) => /^src\/(context|engine|observe)\//.test(to) && !doors.includes(from),
  );
  assert.deepEqual(
    found.map(({ from, to }) => `${from} → ${to}`),
    [],
  );
});
