// Memory files with a real second process, and on a file system that is really too small.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  fchownSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { HorovodError } from '../errors.ts';
import { createMemoryFile, type OpenOptions, openMemoryFile } from './memory-file.ts';

const moduleUrl = new URL('./memory-file.js', import.meta.url).href;

function temporaryDirectory(t: { after(fn: () => void): void }): string {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-memory-file-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

test('another process reads what was written, and no name is left in the directory', (t) => {
  const directory = temporaryDirectory(t);
  const file = createMemoryFile(3 << 20, { directory, label: 'probe' });
  t.after(() => file.close());
  writeSync(file.fd, Buffer.from('hello'), 0, 5, 2 << 20);
  if (existsSync('/proc/self/fd')) assert.deepEqual(readdirSync(directory), []);
  const script = `
    const { openMemoryFile } = await import(${JSON.stringify(moduleUrl)});
    const fs = await import('node:fs');
    const file = openMemoryFile(process.argv[1]);
    const bytes = Buffer.alloc(5);
    fs.readSync(file.fd, bytes, 0, 5, 2 << 20);
    fs.writeSync(file.fd, Buffer.from('world'), 0, 5, 0);
    console.log(bytes.toString(), fs.fstatSync(file.fd).size);`;
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', script, file.path], {
    encoding: 'utf8',
  });
  assert.equal(child.stdout.trim(), `hello ${3 << 20}`, child.stderr);
  const answer = Buffer.alloc(5);
  readSync(file.fd, answer, 0, 5, 0);
  assert.equal(answer.toString(), 'world');
});

test('closing twice is fine and leaves nothing in the directory', (t) => {
  const directory = temporaryDirectory(t);
  const file = createMemoryFile(10, { directory, label: 'probe' });
  file.close();
  file.close();
  assert.deepEqual(readdirSync(directory), []);
});

test('a directory that does not exist is named in the error, with the way out', () => {
  assert.throws(
    () => createMemoryFile(5 << 20, { directory: '/nowhere/at/all', label: 'probe' }),
    (error) =>
      HorovodError.is(error) &&
      error.code === 'ERR_HVD_SHARED_MEMORY' &&
      /5 MiB .*\/nowhere\/at\/all.*ENOENT.*HOROVOD_SHM_DIR/.test(error.message),
  );
});

test('opening the file of a process that has ended says so', () => {
  assert.throws(
    () => openMemoryFile('/proc/999999999/fd/3'),
    (error) =>
      HorovodError.is(error) && error.code === 'ERR_HVD_SHARED_MEMORY' && /ended/.test(error.message),
  );
});

describe('a path that another process has named is not opened', () => {
  const rejects = (path: string, options: OpenOptions, text: RegExp) =>
    assert.throws(
      () => openMemoryFile(path, options),
      (error) => HorovodError.is(error) && error.code === 'ERR_HVD_SHARED_MEMORY' && text.test(error.message),
    );
  const skip = existsSync('/proc/self/fd') ? false : 'there is no /proc';

  test('if it is not a descriptor of a process', { skip }, () => {
    for (const path of [
      '/etc/passwd',
      '/proc/self/fd/0',
      '/proc/1/fd/../mem',
      '/proc/1/mem',
      ' /proc/1/fd/2',
      '',
    ])
      rejects(path, {}, /this is not a descriptor of a process/);
  });

  test('if the process is not one of the job', { skip }, (t) => {
    const file = createMemoryFile(10, { label: 'probe' });
    t.after(() => file.close());
    rejects(file.path, { pids: [1, 2] }, new RegExp(`process ${process.pid} is not one of this job`));
    openMemoryFile(file.path, { pids: [1, process.pid], bytes: 10 }).close();
  });

  test('if it has another size', { skip }, (t) => {
    const file = createMemoryFile(10, { label: 'probe' });
    t.after(() => file.close());
    rejects(file.path, { bytes: 4096 }, /it has 10 bytes instead of 4096/);
  });

  test('if the file has a name, or is none', { skip }, (t) => {
    const name = join(temporaryDirectory(t), 'named');
    const fd = openSync(name, 'wx+');
    t.after(() => closeSync(fd));
    rejects(`/proc/${process.pid}/fd/${fd}`, {}, /the file has a name/);
    const directory = openSync('/proc/self', 'r');
    t.after(() => closeSync(directory));
    rejects(`/proc/${process.pid}/fd/${directory}`, { access: 'read' }, /it is not a file/);
  });

  const asRoot = process.geteuid?.() === 0 ? skip : 'only root can be another user';
  test('if it belongs to another user', { skip: asRoot }, (t) => {
    const file = createMemoryFile(10, { label: 'probe' });
    t.after(() => file.close());
    fchownSync(file.fd, 54_321, 54_321);
    rejects(file.path, {}, /belongs to user 54321, and this process to user 0/);
    // horovod status of root looks at the jobs of all users.
    openMemoryFile(file.path, { access: 'read' }).close();
  });
});

test('a file system that is too small is an error at creation, with its free space, and is left empty', (t) => {
  const directory = temporaryDirectory(t);
  const script = `
    const { createMemoryFile } = await import(${JSON.stringify(moduleUrl)});
    try { createMemoryFile(3 << 20, { directory: process.argv[1], label: 'probe' }); }
    catch (error) { console.log(error.message); }
    createMemoryFile(1 << 20, { directory: process.argv[1], label: 'probe' });
    console.log('fits afterwards');`;
  const command =
    'mount -t tmpfs -o size=2m none "$1" || exit 77; exec "$2" --input-type=module -e "$3" "$1"';
  const child = spawnSync(
    'unshare',
    ['--user', '--map-root-user', '--mount', 'sh', '-c', command, 'sh', directory, process.execPath, script],
    { encoding: 'utf8' },
  );
  if (child.error !== undefined || child.status === 77 || /unshare/.test(child.stderr)) {
    t.skip('no right to mount a small tmpfs here');
    return;
  }
  assert.match(
    child.stdout,
    /cannot have 3 MiB .*ENOSPC.*; 2 MiB are free there.*--shm-size.*HOROVOD_SHM_DIR/,
  );
  assert.match(child.stdout, /fits afterwards/, child.stderr);
});
