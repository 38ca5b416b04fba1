// Who may import what in src/data and src/files. What decides which sample comes when, and what reads bytes, knows nothing of
// pipelines, threads, ranks or connections: it can be tested as functions, and used anywhere.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { importsOf, readProduct } from '../support/sources.ts';

const product = readProduct();

/** Imports of the files that match `from`, of this repository, except those that match `allowed`. */
function importsBeyond(from: RegExp, allowed: RegExp): string[] {
  const sources = product.filter(({ path }) => from.test(path));
  assert.ok(sources.length > 0, `no file matches ${from}`);
  return sources.flatMap((source) =>
    importsOf(source)
      .filter((target) => !allowed.test(target))
      .map((target) => `${source.path} → ${target}`),
  );
}

describe('data', () => {
  test('orders import errors and each other', () => {
    assert.deepEqual(importsBeyond(/^src\/data\/order\//, /^src\/(errors\.ts|tensor\/|data\/order\/)/), []);
  });

  test('formats import errors, tensors, files and each other', () => {
    const allowed = /^src\/(errors\.ts|tensor\/|files\/|data\/formats\/)/;
    assert.deepEqual(importsBeyond(/^src\/data\/formats\//, allowed), []);
  });

  test('the ledger and the rounds of the data service are pure', () => {
    const pure = /^src\/data\/service\/(ledger|rounds|ranges)[\w-]*\.ts$/;
    const allowed = /^src\/(errors\.ts|tensor\/|data\/order\/|data\/service\/(ledger|rounds|ranges))/;
    assert.deepEqual(importsBeyond(pure, allowed), []);
  });

  test('files know no data', () => {
    assert.deepEqual(importsBeyond(/^src\/files\//, /^src\/(?!data\/)/), []);
  });

  test('data knows no framework', () => {
    const framework = /['"](@tensorflow\/|@jax-js\/)/;
    const found = product.filter(({ path, code }) => path.startsWith('src/data/') && framework.test(code));
    assert.deepEqual(
      found.map(({ path }) => path),
      [],
    );
    assert.deepEqual(importsBeyond(/^src\/data\//, /^src\/(?!adapters\/)/), []);
  });

  test('only the data service has connections', () => {
    const sources = /^src\/data\/(?!service\/)/;
    assert.deepEqual(importsBeyond(sources, /^src\/(?!(net|control|rendezvous)\/)/), []);
  });
});
