import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { filesForTests } from '../../test/support/files.ts';
import { createAtomically, writeFileAtomically } from './atomic-write.ts';
import { problemOf } from './file-system.ts';
import { LocalFileSystem } from './local.ts';
import { readFile, readTextFile, statusOf } from './read-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'hvd-files-'));
after(() => rmSync(folder, { recursive: true }));
const local = new LocalFileSystem();
const files = filesForTests();
const at = (name: string) => join(folder, name);
const code = 'ERR_HVD_FILE_SYSTEM';

describe('files of this machine', () => {
  test('what is written is read, at any position', async () => {
    await using file = await local.create(at('a.bin'));
    await file.write(Buffer.from('hello '));
    await file.write(Buffer.from('world'));
    await file.close();
    await using handle = await local.open(at('a.bin'));
    assert.equal(handle.size, 11);
    assert.equal(handle.isSequential, false);
    const target = Buffer.alloc(5);
    assert.equal(await handle.read(target, 6), 5);
    assert.equal(String(target), 'world');
    assert.equal(await handle.read(target, 8), 3);
    assert.equal(await handle.read(target, 11), 0);
  });

  test('a handle that is given up leaves no file', async () => {
    {
      await using file = await local.create(at('given-up'));
      await file.write(Buffer.from('x'));
    }
    assert.ok(!readdirSync(folder).includes('given-up'));
  });

  test('an existing file is an error, unless it is to be replaced', async () => {
    writeFileSync(at('there'), 'old content');
    await assert.rejects(local.create(at('there')), {
      code,
      message: `${code}: Cannot create ${at('there')}: it exists already.`,
    });
    await using file = await local.create(at('there'), { overwrite: true, permission: 0o600 });
    await file.write(Buffer.from('new'));
    await file.close();
    assert.equal(readFileSync(at('there'), 'utf8'), 'new');
  });

  test('a rename replaces nothing by accident', async () => {
    writeFileSync(at('from'), 'from');
    writeFileSync(at('to'), 'to');
    await assert.rejects(local.rename(at('from'), at('to')), (error) => problemOf(error) === 'exists');
    assert.equal(readFileSync(at('to'), 'utf8'), 'to');
    await local.rename(at('from'), at('to'), { overwrite: true });
    assert.equal(readFileSync(at('to'), 'utf8'), 'from');
    await local.rename(at('to'), at('elsewhere'));
    assert.equal(readFileSync(at('elsewhere'), 'utf8'), 'from');
  });

  test('appending needs a file', async () => {
    await assert.rejects(
      local.append(at('log'), Buffer.from('x')),
      (error) => problemOf(error) === 'missing',
    );
    writeFileSync(at('log'), 'a');
    await local.append(at('log'), Buffer.from('bc'));
    assert.equal(readFileSync(at('log'), 'utf8'), 'abc');
  });

  test('a status says what and how large it is; a missing file has a text', async () => {
    mkdirSync(at('dir'));
    writeFileSync(at('dir/file'), '12345');
    symlinkSync(at('dir/file'), at('dir/link'));
    symlinkSync(at('nowhere'), at('dir/broken'));
    const entries = await local.list(at('dir'));
    assert.deepEqual(entries.map(({ name, kind, size, isLink }) => [name, kind, size, isLink]).sort(), [
      ['file', 'file', 5, undefined],
      ['link', 'file', 5, true],
    ]);
    const { kind, modifiedMs, owner } = await local.stat(at('dir'));
    assert.deepEqual([kind, modifiedMs, owner], ['folder', statSync(at('dir')).mtimeMs, process.getuid?.()]);
    await assert.rejects(local.stat(at('no')), {
      code,
      message: `${code}: Cannot read ${at('no')}: it does not exist.`,
    });
    await assert.rejects(local.open(at('dir')), { code, message: /is a folder, not a file/ });
    assert.equal(await statusOf(files, at('no')), undefined);
    assert.equal(await statusOf(files, at('dir/file/below')), undefined);
  });

  test('removing takes a folder with content only if asked to', async () => {
    mkdirSync(at('full'));
    writeFileSync(at('full/x'), '');
    await assert.rejects(local.remove(at('full')), (error) => problemOf(error) === 'exists');
    await local.remove(at('full'), { recursive: true });
    await local.remove(at('full'));
    await local.remove(at('full'), { recursive: true });
    assert.equal(await statusOf(files, at('full')), undefined);
  });

  test('a folder that may not be written is named', {
    skip: process.getuid?.() === 0 && 'root may write everywhere',
  }, async () => {
    mkdirSync(at('closed'));
    chmodSync(at('closed'), 0o500);
    await assert.rejects(local.create(at('closed/x')), { code, message: /permission denied/ });
  });

  test('a full disk is named', {
    skip: !readdirSync('/dev').includes('full') && 'no /dev/full',
  }, async () => {
    const path = at('full-disk');
    symlinkSync('/dev/full', path);
    await using file = await local.create(path, { overwrite: true });
    const message = `${code}: Cannot write ${path}: the disk is full.`;
    await assert.rejects(file.write(Buffer.from('x')), { code, message });
  });
});

describe('atomic writes', () => {
  test('the name appears with close(), and nothing else is left', async () => {
    const path = at('atomic/model.json');
    await local.mkdir(at('atomic'));
    await writeFileAtomically(files, path, 'first');
    await using file = await createAtomically(files, path);
    await file.write(Buffer.from('second'));
    assert.equal(readFileSync(path, 'utf8'), 'first');
    await file.close();
    assert.equal(await readTextFile(files, path), 'second');
    assert.deepEqual(readdirSync(at('atomic')), ['model.json']);
  });

  test('a write that is given up, or finds a file it must not replace, leaves the old file alone', async () => {
    const path = at('kept/file');
    await local.mkdir(at('kept'));
    await writeFileAtomically(files, path, 'old', { permission: 0o600 });
    assert.equal(statSync(path).mode & 0o777, 0o600);
    {
      await using file = await createAtomically(files, path);
      await file.write(Buffer.from('new'));
    }
    await assert.rejects(
      writeFileAtomically(files, path, 'new', { overwrite: false }),
      (error) => problemOf(error) === 'exists',
    );
    assert.equal(readFileSync(path, 'utf8'), 'old');
    assert.deepEqual(readdirSync(at('kept')), ['file']);
  });

  test('large content is written and read in pieces, with progress', async () => {
    const content = new Uint8Array(33 * 2 ** 20 + 1).map((_, i) => i % 251);
    const written: number[] = [];
    const read: number[] = [];
    await writeFileAtomically(files, pathToFileURL(at('large')), content, {
      onProgress: (bytes) => written.push(bytes),
    });
    const back = await readFile(files, at('large'), { onProgress: (bytes) => read.push(bytes) });
    assert.equal(Buffer.compare(back, content), 0);
    assert.deepEqual(written, [2 ** 24, 2 ** 25, content.length]);
    assert.deepEqual(read, written);
    await assert.rejects(readFile(files, at('large'), { maxBytes: 10 }), {
      code,
      message: /at most 10 were expected/,
    });
  });
});
