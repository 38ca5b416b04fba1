import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { libcOfThisNode, loaderOf } from './libc.ts';

const isLinux = process.platform === 'linux' ? {} : { skip: 'executables have another format here' };

test('the loader of this Node is a file that exists', isLinux, () => {
  const loader = loaderOf(process.execPath);
  assert.match(loader ?? '', /^\/.*ld-/);
  readFileSync(loader ?? '');
});

test('an executable for musl is known by its loader', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-libc-'));
  try {
    const file = join(folder, 'node');
    const write = (loader: string) => writeFileSync(file, executableWith(loader));
    write('/lib/ld-musl-x86_64.so.1');
    assert.equal(loaderOf(file), '/lib/ld-musl-x86_64.so.1');
    assert.equal(libcOfThisNode(file), 'musl');
    write('/lib64/ld-linux-x86-64.so.2');
    assert.equal(libcOfThisNode(file), 'gnu');
    for (const bytes of [0, 3, 63, 70, 119, 125]) {
      writeFileSync(file, executableWith('/lib/ld-musl-x86_64.so.1').subarray(0, bytes));
      assert.equal(loaderOf(file)?.includes('so') ?? false, false, `cut off after ${bytes} bytes`);
    }
    writeFileSync(
      file,
      '#!/bin/sh\necho this is a script, and longer than a header of an executable file is\n',
    );
    assert.equal(loaderOf(file), undefined);
    assert.equal(loaderOf(join(folder, 'missing')), undefined);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** An ELF file with two segments, of which the second is the interpreter. */
function executableWith(loader: string): Buffer {
  const bytes = Buffer.alloc(64 + 2 * 56 + loader.length + 1);
  bytes.write('\x7fELF', 'latin1');
  bytes[4] = 2;
  bytes[5] = 1;
  bytes.writeBigUInt64LE(64n, 32);
  bytes.writeUInt16LE(56, 54);
  bytes.writeUInt16LE(2, 56);
  bytes.writeUInt32LE(6, 64);
  bytes.writeUInt32LE(3, 64 + 56);
  bytes.writeBigUInt64LE(BigInt(64 + 2 * 56), 64 + 56 + 8);
  bytes.writeBigUInt64LE(BigInt(loader.length + 1), 64 + 56 + 32);
  bytes.write(loader, 64 + 2 * 56, 'latin1');
  return bytes;
}
