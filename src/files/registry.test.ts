import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { filesForTests } from '../../test/support/files.ts';
import { folderOf, joinLocation, locationOf, nameOf, pathOf, schemeOf } from './location.ts';
import { readTextFile } from './read-file.ts';
import { Files } from './registry.ts';

const folder = mkdtempSync(join(tmpdir(), 'hvd-registry-'));
after(() => rmSync(folder, { recursive: true }));

describe('locations', () => {
  test('the scheme of paths and URLs', () => {
    for (const path of ['a/b', '/a/b', 'c:\\a', 'file:///a', 'FILE://a', 'a://'.slice(0, 3)])
      assert.equal(schemeOf(path), 'file');
    assert.equal(schemeOf('HDFS://nn/a'), 'hdfs');
    assert.equal(schemeOf('s3+x://a'), 's3+x');
  });

  test('paths become absolute, URLs stay, HDFS paths are literal', () => {
    assert.equal(locationOf('a'), join(process.cwd(), 'a'));
    assert.equal(locationOf('file:///a%20b'), '/a b');
    assert.equal(pathOf('file://x/50%'), join(process.cwd(), 'x/50%'));
    assert.equal(locationOf(new URL('file:///a%20b')), '/a b');
    assert.equal(locationOf('hdfs://nn/a%20b'), 'hdfs://nn/a%20b');
    assert.equal(locationOf(new URL('hdfs://nn/a%20b')), 'hdfs://nn/a b');
    assert.equal(locationOf(new URL('http://h/a%20b?c=%20')), 'http://h/a%20b?c=%20');
    assert.throws(() => pathOf(''), { code: 'ERR_HVD_INVALID_ARGUMENT' });
    assert.throws(() => pathOf('file://'), { code: 'ERR_HVD_INVALID_ARGUMENT' });
  });

  test('a name that tfjs-node has saved without escapes is found', () => {
    writeFileSync(join(folder, 'my%20model'), '');
    assert.equal(pathOf(`file://${folder}/my%20model`), join(folder, 'my%20model'));
    writeFileSync(join(folder, 'my model'), '');
    assert.equal(pathOf(`file://${folder}/my%20model`), join(folder, 'my model'));
  });

  test('folders and names', () => {
    const table = [
      ['/a/b', '/a', 'b'],
      ['/a/b/', '/a', 'b'],
      ['/a', '/', 'a'],
      ['hdfs://nn:8020/a/b c', 'hdfs://nn:8020/a', 'b c'],
      ['hdfs:///a', 'hdfs:///', 'a'],
      ['http://h/a/b?c=/d', 'http://h/a?c=/d', 'b'],
    ] as const;
    for (const [location, parent, name] of table) {
      assert.equal(folderOf(location), parent);
      assert.equal(nameOf(location), name);
    }
    assert.equal(joinLocation('/', 'a'), '/a');
    assert.equal(joinLocation('/a/', 'b', 'c'), '/a/b/c');
    assert.equal(joinLocation('hdfs:///', 'a'), 'hdfs:///a');
    assert.equal(joinLocation('hdfs://nn/', 'a b%'), 'hdfs://nn/a b%');
    assert.equal(joinLocation('hdfs://nn', 'a'), 'hdfs://nn/a');
    assert.equal(joinLocation('http://h/a?q=1', 'b c'), 'http://h/a/b%20c?q=1');
  });
});

describe('file systems of users', () => {
  const module = join(folder, 'memory.mjs');
  writeFileSync(
    module,
    `export default (scheme) => ({
       open: async (location) => {
         const content = Buffer.from(scheme + ' has ' + location);
         return { location, size: content.length, isSequential: false, close: async () => {}, [Symbol.asyncDispose]: async () => {},
                  read: async (target, position) => content.copy(target, 0, position) };
       },
     });`,
  );

  test('a module is loaded when its scheme is first used, also from what another thread was handed', async () => {
    const files = filesForTests();
    files.register('s3', pathToFileURL(module));
    files.register('s3', pathToFileURL(module));
    assert.equal(await readTextFile(files, 's3://bucket/a'), 's3 has s3://bucket/a');
    const [settings, registrations] = structuredClone([files.settings, files.registrations] as const);
    assert.equal(await readTextFile(new Files(settings, registrations), 's3://b/c'), 's3 has s3://b/c');
  });

  test('wrong registrations are rejected', () => {
    const files = filesForTests();
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    files.register('gs', pathToFileURL(module));
    assert.throws(() => files.register('gs', pathToFileURL(`${module}2`)), {
      code,
      message: /gs:\/\/ is already file:/,
    });
    assert.throws(() => files.register('file', pathToFileURL(module)), { code, message: /built in/ });
    assert.throws(() => files.register('s3://', pathToFileURL(module)), { code, message: /such as s3/ });
    assert.throws(() => files.register('s3', module as never), { code, message: /import\.meta\.url/ });
  });

  test('a scheme without a file system, and modules that do not load, have texts', async () => {
    const files = filesForTests();
    const code = 'ERR_HVD_FILE_SYSTEM';
    await assert.rejects(readTextFile(files, 's3://a/b'), {
      code,
      message: /no file system for s3:\/\/.*registerFileSystem\('s3'/,
    });
    files.register('s3', pathToFileURL(join(folder, 'missing.mjs')));
    await assert.rejects(readTextFile(files, 's3://a/b'), {
      code,
      message: /cannot be loaded: .*missing\.mjs/,
    });
    writeFileSync(join(folder, 'empty.mjs'), 'export {};');
    files.register('gs', pathToFileURL(join(folder, 'empty.mjs')));
    await assert.rejects(readTextFile(files, 'gs://a/b'), {
      code,
      message: /has no function as its default export/,
    });
  });
});
