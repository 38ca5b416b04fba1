// The invariants of ARCHITECTURE.md that a script can check, read from the sources: who may import whom, who may
// read the environment, exit the process, include Node's headers or keep state in a module.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { sourcesDigest } from '../../src/adapters/tensorflow/backend/wasm/training-module.ts';
import { errorCodes } from '../../src/errors.ts';

const repository = findRepository(dirname(fileURLToPath(import.meta.url)));

interface Source {
  /** Path from the repository's root, with forward slashes. */
  readonly path: string;
  readonly text: string;
  /** The text without comments, so that an explanation is not taken for code. */
  readonly code: string;
}

const sources = readSources('src', /\.ts$/);
const product = sources.filter((source) => !source.path.endsWith('.test.ts') && !isTesting(source));
const nativeSources = readSources('native/src', /\.(cc|h|inc)$/);

describe('layers', () => {
  test('the engine knows no transport but its interface', () => {
    assert.deepEqual(importsMatching(/^src\/engine\//, /^src\/transport\/.+\//), []);
  });

  test('one transport does not import another', () => {
    const transports = ['shm', 'portable', 'memory', 'hierarchical'];
    const found = transports.flatMap((transport) => {
      const others = transports.filter((other) => other !== transport).join('|');
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
    // Native code also reaches TensorFlow's memory, which concerns no transport: one file may ask for it.
    const adapters = /^src\/adapters\/(?!tensorflow\/backend\/tfjs-node-memory\.ts)/;
    assert.deepEqual(importsMatching(adapters, forbidden), []);
  });
});

describe('the process', () => {
  test('only settings/ reads the environment', () => {
    const readers = product.filter(
      (source) => /\bprocess\.env\b/.test(source.code) && !source.path.startsWith('src/settings/'),
    );
    assert.deepEqual(paths(readers), []);
  });

  test('only the command line exits the process', () => {
    const exits = product.filter(
      (source) =>
        /\bprocess\.(exit|reallyExit|abort|exitCode)\b/.test(source.code) &&
        !/^src\/(cli|launch|launch\/agent)\/main\.ts$/.test(source.path),
    );
    assert.deepEqual(paths(exits), []);
  });

  test('no module keeps mutable state but the default context', () => {
    const found = product
      .filter((source) => source.path !== 'src/context/default/default-context.ts')
      .filter((source) => /^(export )?(let|var) /m.test(source.code));
    assert.deepEqual(paths(found), []);
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
  for (const name of readdirSync(folder).sort()) hash.update(readFileSync(join(folder, name)));
  assert.equal(sourcesDigest, hash.digest('hex'), 'run node scripts/build-training-kernels.mjs');
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
  test('every source file opens with a paragraph that says what it is', () => {
    // A .cc file with a header of the same name has it there; a test's sentences speak for themselves.
    const headers = new Set(paths(nativeSources).filter((path) => path.endsWith('.h')));
    const silent = [...product, ...nativeSources]
      .filter((source) => !headers.has(source.path.replace(/\.cc$/, '.h')) || source.path.endsWith('.h'))
      .filter((source) => !/^(#!.*\n)?\/[/*]/.test(source.text));
    assert.deepEqual(paths(silent), []);
  });

  test('no file has grown beyond 500 lines', () => {
    const long = [...sources, ...nativeSources].filter((source) => source.text.split('\n').length > 500);
    assert.deepEqual(paths(long), []);
  });
});

function isTesting(source: Source): boolean {
  return source.path.startsWith('src/testing/');
}

function paths(list: readonly Source[]): string[] {
  return list.map((source) => source.path);
}

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

function importsOf(source: Source): string[] {
  const specifiers = source.code.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g);
  return [...specifiers].map((match) => normalize(join(dirname(source.path), match[1] as string)));
}

function readSources(folder: string, name: RegExp): Source[] {
  const root = join(repository, folder);
  if (!existsSync(root)) return [];
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && name.test(entry.name))
    .map((entry) => {
      const file = join(entry.parentPath, entry.name);
      const text = readFileSync(file, 'utf8');
      return { path: relative(repository, file), text, code: withoutComments(text) };
    })
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$|\s\/\/ .*$/gm, '');
}

// Compiled tests may live in dist/ or another output folder; the package's root is where package.json is.
function findRepository(start: string): string {
  return existsSync(join(start, 'package.json')) ? start : findRepository(dirname(start));
}
