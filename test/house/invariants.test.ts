// Invariants of ARCHITECTURE.md that can be read from the sources: who may import a transport, a framework or Node's headers, which
// error codes exist, and what files look like.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { errorCodes } from '../../src/errors.ts';
import { repository } from '../support/repository.ts';
import {
  importsOf,
  paths,
  readNativeSources,
  readProduct,
  readSources,
  type Source,
} from '../support/sources.ts';

const product = readProduct().filter(({ path }) => !path.startsWith('src/testing/'));
const nativeSources = readNativeSources();
const scripts = ['bench', 'bin', 'examples', 'scripts', 'src', 'test'].flatMap((folder) =>
  readSources(folder, /\.(ts|mjs|js|sh|py|c)$/),
);
const nativeTests = readSources('native/test', /\.(cc|h)$/);
const spreadLiteral = /\.\.\.\{/;

describe('layers', () => {
  const transports = ['shm', 'portable', 'memory', 'hierarchical', 'native'];

  test('the engine knows the interface of transports, and no transport', () => {
    const implementations = new RegExp(`^src/transport/(${transports.join('|')})/`);
    assert.deepEqual(importsMatching(/^src\/engine\//, implementations), []);
  });

  test('one transport does not import another', () => {
    // Several build on the bindings of the addon.
    const found = transports.flatMap((transport) => {
      const others = transports.filter((other) => ![transport, 'native'].includes(other)).join('|');
      return importsMatching(
        new RegExp(`^src/transport/${transport}/`),
        new RegExp(`^src/transport/(${others})/`),
      );
    });
    assert.deepEqual(found, []);
  });

  test('only its adapter imports a framework', () => {
    const importers = (framework: RegExp, adapters: RegExp) =>
      paths(product.filter(({ path, code }) => framework.test(code) && !adapters.test(path)));
    assert.deepEqual(
      importers(/(from|import\() ?'@tensorflow\//, /^src\/adapters\/(tensorflow|keras)\//),
      [],
    );
    assert.deepEqual(importers(/(from|import\() ?'@jax-js\//, /^src\/adapters\/jax\//), []);
  });

  test('adapters know no transports, sockets or launchers', () => {
    const forbidden = /^src\/(transport|rendezvous|net|control|launch)\//;
    // The addon also works on the memory of backends, which concerns no transport: one file may load it.
    const adapters = /^src\/adapters\/(?!tensorflow\/backend\/addon\.ts)/;
    assert.deepEqual(importsMatching(adapters, forbidden), []);
  });
});

describe('native code', () => {
  test('only native/src/node includes Node headers', () => {
    const found = nativeSources.filter(
      (source) =>
        /#include\s*[<"](node|node_api|js_native_api|uv|v8|napi)[\w-]*(\.h)?[>"]/.test(source.code) &&
        !source.path.startsWith('native/src/node/'),
    );
    assert.deepEqual(paths(found), []);
  });
});

test('the WASM training kernels are made from the C files as they are', () => {
  // CI has no clang; that nobody forgot to run the script after a change can be seen all the same.
  const folder = join(repository, 'native/wasm');
  const hash = createHash('sha256');
  const names = readdirSync(folder).filter((name) => /\.[ch]$/.test(name));
  for (const name of names.sort()) hash.update(readFileSync(join(folder, name)));
  const module = readFileSync(join(folder, 'compiled/training-kernels.wasm'), 'latin1');
  assert.ok(
    module.endsWith(`sources${hash.digest('hex')}`), // the custom section at its end
    'run node scripts/build-training-kernels.mjs',
  );
});

describe('errors', () => {
  const codesIn = (list: readonly Source[]): Set<string> =>
    new Set(list.flatMap((source) => source.code.match(/\bERR_HVD_[A-Z_]+\b/g) ?? []));
  const used = codesIn([...product, ...nativeSources].filter((source) => source.path !== 'src/errors.ts'));

  test('every code used is in the table', () => {
    assert.deepEqual([...used].filter((code) => !(code in errorCodes)).sort(), []);
  });

  test('every code of the table is used', () => {
    assert.deepEqual(
      Object.keys(errorCodes).filter((code) => !used.has(code)),
      [],
    );
  });

  test('every code has an entry in the guide', () => {
    const guide = readFileSync(join(repository, 'docs/guide/failures.md'), 'utf8');
    assert.deepEqual(
      Object.keys(errorCodes).filter((code) => !guide.includes(code)),
      [],
    );
  });
});

describe('files', () => {
  test('compiled files that scripts name have a source', () => {
    const named = scripts.flatMap(({ path, code }) =>
      path.endsWith('.test.ts') || path.endsWith('.test.mjs')
        ? []
        : [...code.matchAll(/'(?:\.\.\/)*(\.?dist(?:-test)?\/[\w./-]+\.js)'/g)].map(
            ([, name]) => `${path}: ${name}`,
          ),
    );
    const sourceOf = (name: string) =>
      name
        .replace(/^.*: /, '')
        .replace(/^dist\//, 'src/')
        .replace(/^\.dist-test\//, '')
        .replace(/\.js$/, '.ts');
    assert.deepEqual(
      named.filter((each) => !existsSync(join(repository, sourceOf(each)))),
      [],
    );
  });

  test('every source file opens with a paragraph that says what it is', () => {
    // A .cc file with a header of the same name has it there; a test's sentences speak for themselves.
    const headers = new Set(paths(nativeSources).filter((path) => path.endsWith('.h')));
    const silent = [...product, ...nativeSources]
      .filter((source) => !headers.has(source.path.replace(/\.cc$/, '.h')) || source.path.endsWith('.h'))
      .filter((source) => !/^(#!.*\n)?\/[/*]/.test(source.text));
    assert.deepEqual(paths(silent), []);
  });

  test('no file has grown beyond 500 lines', () => {
    const long = [...scripts, ...nativeSources, ...nativeTests].filter(
      ({ text }) => text.trimEnd().split('\n').length > 500,
    );
    assert.deepEqual(paths(long), []);
  });

  test('no object is written as a spread of a literal only to keep it on one line', () => {
    // The tests of this rule have some in strings.
    const isAboutThem = /^test\/house\//;
    const found = scripts.filter(({ path, code }) => spreadLiteral.test(code) && !isAboutThem.test(path));
    assert.deepEqual(paths(found), []);
  });

  test('the spread of a literal is found, that of a choice is not', () => {
    assert.match('f({ ...{ a, b }, c })', spreadLiteral);
    assert.match('f({\n  ...{\n    a,\n  },\n})', spreadLiteral);
    assert.doesNotMatch('f({ ...(isOn ? { a } : {}), ...options })', spreadLiteral);
  });
});

/** `from → to` of every import out of files matching one pattern into files matching the other. */
function importsMatching(from: RegExp, to: RegExp): string[] {
  return product
    .filter((source) => from.test(source.path))
    .flatMap((source) =>
      importsOf(source)
        .filter((target) => to.test(target))
        .map((target) => `${source.path} → ${target}`),
    );
}
