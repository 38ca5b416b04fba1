// --output-filename and --timeline-filename with hdfs:// URLs, against an HDFS in this process.

import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type FakeHdfs, opOf, remoteException, startFakeHdfs } from '../../../test/support/fake-hdfs.ts';
import { repository } from '../../../test/support/repository.ts';
import { startHorovodrun } from '../../testing/spawn-ranks.ts';

interface Place {
  readonly hdfs: FakeHdfs;
  readonly script: string;
  readonly temporary: string;
  readonly run: (...flags: string[]) => Promise<{ exitCode: number | null; stderr: string }>;
}

async function place(t: { after(fn: () => unknown): void }): Promise<Place> {
  const temporary = mkdtempSync(join(tmpdir(), 'hvd-outputs-'));
  t.after(() => rmSync(temporary, { recursive: true }));
  const hdfs = await startFakeHdfs();
  t.after(() => hdfs[Symbol.asyncDispose]());
  const script = join(temporary, 'train.mjs');
  const horovod = pathToFileURL(join(repository, '.dist-test/src/index.js')).href;
  writeFileSync(
    script,
    `import * as hvd from ${JSON.stringify(horovod)};
     await hvd.init();
     await hvd.allreduce(new Float32Array(4));
     console.log('hello from ' + hvd.rank());
     await hvd.shutdown();`,
  );
  // Files that are left behind would be in this folder.
  const env = { HOROVOD_WEBHDFS: hdfs.namenode.host, TMPDIR: temporary, HOROVOD_FLIGHT_DIR: 'none' };
  const run: Place['run'] = async (...flags) => {
    const started = startHorovodrun(['-np', '2', ...flags, script], { env });
    const { exitCode } = await started.ended;
    return { exitCode, stderr: started.stderr };
  };
  return { hdfs, script, temporary, run };
}

test('the output of the ranks and the timeline are copied to HDFS when the job has ended', async (t) => {
  const { hdfs, temporary, run } = await place(t);
  const { exitCode, stderr } = await run(
    '--output-filename',
    'hdfs://nn/run/logs',
    '--timeline-filename',
    'hdfs://nn/run/trace.json',
  );
  assert.equal(exitCode, 0, stderr);
  for (const rank of [0, 1]) {
    assert.match(String(hdfs.files.get(`/run/logs/rank.${rank}/stdout`)), new RegExp(`hello from ${rank}`));
  }
  const events = JSON.parse(String(hdfs.files.get('/run/trace.json'))) as unknown[];
  assert.ok(events.length > 0);
  assert.deepEqual(
    readdirSync(temporary).filter((name) => name.startsWith('horovodrun-')),
    [],
  );
});

test('what cannot be copied stays here, and a message says where', async (t) => {
  const { hdfs, temporary, run } = await place(t);
  hdfs.atNamenode = (request, response) =>
    opOf(request) === 'CREATE' &&
    remoteException(response, 403, 'AccessControlException', 'Permission denied');
  const { exitCode, stderr } = await run('--output-filename', 'hdfs://nn/run');
  assert.equal(exitCode, 0, stderr);
  const folder = /could not be copied: Cannot write hdfs:\/\/nn\/run\/.*They are in (\S+)\.\n/.exec(
    stderr,
  )?.[1];
  assert.ok(folder?.startsWith(temporary), stderr);
  assert.match(readFileSync(join(folder ?? '', 'output/rank.0/stdout'), 'utf8'), /hello from 0/);
});

test('a place that cannot be written is rejected before the ranks start', async (t) => {
  const { run } = await place(t);
  for (const [flag, location, text] of [
    ['--output-filename', 'http://host/logs', /http:\/\/host\/logs can only be read/],
    [
      '--timeline-filename',
      'gopher://host/trace.json',
      /cannot be used: There is no file system for gopher:\/\//,
    ],
  ] as const) {
    const { exitCode, stderr } = await run(flag, location);
    assert.equal(exitCode, 2);
    assert.match(stderr, text);
  }
});
