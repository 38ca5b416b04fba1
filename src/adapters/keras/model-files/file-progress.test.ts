import assert from 'node:assert/strict';
import { mkdtemp, open, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readInPieces, writeInPieces } from './file-progress.ts';

test('what is written in pieces is read in pieces', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'hvd-pieces-'));
  t.after(() => rm(folder, { recursive: true }));
  const path = join(folder, 'weights.bin');
  // None, less than one piece, and more than two.
  for (const length of [0, 1000, 33 * 2 ** 20 + 1]) {
    const content = new Uint8Array(length).map((_, i) => i % 251);
    const output = await open(path, 'w');
    await writeInPieces(output, content, path);
    await output.close();
    const input = await open(path, 'r');
    assert.equal(Buffer.compare(await readInPieces(input, path), content), 0);
    await input.close();
  }
});

test('a file that becomes shorter while it is read ends where it ends', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'hvd-pieces-'));
  t.after(() => rm(folder, { recursive: true }));
  const path = join(folder, 'weights.bin');
  const output = await open(path, 'w');
  await writeInPieces(output, new Uint8Array(1000), path);
  await output.close();
  const input = await open(path, 'r');
  const stat = input.stat.bind(input);
  input.stat = (async () => {
    const before = await stat();
    await truncate(path, 10);
    return before;
  }) as typeof input.stat;
  assert.equal((await readInPieces(input, path)).length, 10);
  await input.close();
});
