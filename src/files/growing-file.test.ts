import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { startFakeHdfs } from '../../test/support/fake-hdfs.ts';
import { filesForTests } from '../../test/support/files.ts';
import { GrowingFile } from './growing-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'hvd-growing-'));
after(() => rmSync(folder, { recursive: true }));

test('on this machine each piece is in the file at once', async () => {
  const path = join(folder, 'log');
  const file = await GrowingFile.create(filesForTests(), path, Buffer.from('a'));
  await file.append(Buffer.from('b'));
  assert.equal(readFileSync(path, 'utf8'), 'ab');
  await assert.rejects(GrowingFile.create(filesForTests(), path, Buffer.from('a')), {
    code: 'ERR_HVD_FILE_SYSTEM',
  });
});

test('on HDFS pieces are collected until there are enough, or until they are asked for', async (t) => {
  await using hdfs = await startFakeHdfs();
  const files = filesForTests({ webHdfs: hdfs.namenode.host });
  t.after(() => files.close());
  const text = () => String(hdfs.files.get('/log'));
  const file = await GrowingFile.create(files, 'hdfs://nn/log', Buffer.from('a'), {
    everyMs: 600_000,
    everyBytes: 4,
  });
  const piece = Buffer.from('b');
  await file.append(piece);
  piece.write('X'); // the caller's memory is its own again
  assert.equal(text(), 'a');
  await file.append(Buffer.from('ccc'));
  assert.equal(text(), 'abccc');
  await file.append(Buffer.from('d'));
  await file.flush();
  assert.equal(text(), 'abcccd');
  await file.flush();
});

test('on HDFS pieces are written after a while, and a failure of that comes with the next one', async (t) => {
  await using hdfs = await startFakeHdfs();
  const files = filesForTests({ webHdfs: hdfs.namenode.host });
  t.after(() => files.close());
  const file = await GrowingFile.create(files, 'hdfs://nn/log', Buffer.from('a'), { everyMs: 5 });
  await file.append(Buffer.from('b'));
  while (String(hdfs.files.get('/log')) !== 'ab') await new Promise((resolve) => setImmediate(resolve));
  hdfs.files.delete('/log');
  await assert.rejects(
    async () => {
      for (;;) {
        await file.append(Buffer.from('c'));
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
    { code: 'ERR_HVD_FILE_SYSTEM', message: /Cannot append to hdfs:\/\/nn\/log: it does not exist/ },
  );
  // Pieces that the timer has not taken yet.
  await file.flush().catch(() => undefined);
});

test('a file system that cannot append gets the whole file', async () => {
  const module = join(folder, 'memory.mjs');
  writeFileSync(
    module,
    `import { readFileSync, renameSync, writeFileSync } from 'node:fs';
     const path = (location) => ${JSON.stringify(folder)} + location.slice('mem://x'.length);
     export default () => ({
       create: async (location) => ({ location, bytes: [], async write(b) { this.bytes.push(Buffer.from(b)); }, async abort() {},
         async close() { writeFileSync(path(location), Buffer.concat(this.bytes)); }, async [Symbol.asyncDispose]() {} }),
       rename: async (from, to) => renameSync(path(from), path(to)),
       remove: async () => {},
     });`,
  );
  const files = filesForTests();
  files.register('mem', pathToFileURL(module));
  const file = await GrowingFile.create(files, 'mem://x/grown', Buffer.from('a'), { everyBytes: 1 });
  await file.append(Buffer.from('b'));
  await file.append(Buffer.from('c'));
  assert.equal(readFileSync(join(folder, 'grown'), 'utf8'), 'abc');
});
