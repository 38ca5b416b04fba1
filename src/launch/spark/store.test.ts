// The layout of a store, and what it says of wrong locations.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { fixturePath } from '../../../test/support/repository.ts';
import { Store } from './store.ts';

test('a store has the layout of Horovod, on any file system', () => {
  const store = Store.create('hdfs://nn:8020/Projects/demo/store/');
  const prefix = 'hdfs://nn:8020/Projects/demo/store';
  assert.equal(store.prefixPath, prefix);
  assert.equal(store.trainDataPath(), `${prefix}/intermediate_train_data`);
  assert.equal(store.trainDataPath(2), `${prefix}/intermediate_train_data.2`);
  assert.equal(store.validationDataPath(), `${prefix}/intermediate_val_data`);
  assert.equal(store.testDataPath(), `${prefix}/intermediate_test_data`);
  assert.equal(store.checkpointPath('run 1'.replace(' ', '-')), `${prefix}/runs/run-1/checkpoint`);
  assert.equal(store.logsPath('keras_17'), `${prefix}/runs/keras_17/logs`);
  const elsewhere = Store.create('/tmp/store', { trainPath: '/data/train', runsPath: 'hdfs:///runs' });
  assert.equal(elsewhere.trainDataPath(), '/data/train');
  assert.equal(elsewhere.runPath('a'), 'hdfs:///runs/a');
  assert.equal(Store.create(pathToFileURL('/tmp/a store')).runsPath(), '/tmp/a store/runs');
});

test('a store says what is in it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-store-'));
  try {
    const store = Store.create(fixturePath('spark/store/'));
    assert.ok(await store.isParquetDataset(store.trainDataPath()));
    assert.ok(!(await store.isParquetDataset(store.testDataPath())));
    assert.deepEqual(await store.runIds(), []);
    const own = Store.create(folder);
    const note = join(own.runPath('first'), 'note.txt');
    assert.ok(!(await own.exists(note)));
    await own.writeText(note, 'begun');
    assert.equal(Buffer.from(await own.read(note)).toString(), 'begun');
    assert.deepEqual(await own.runIds(), ['first']);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('wrong locations and names are rejected', () => {
  const wrong = { code: 'ERR_HVD_INVALID_ARGUMENT' };
  assert.throws(() => Store.create(''), wrong);
  assert.throws(() => Store.create(7 as never), wrong);
  assert.throws(() => Store.create('http://host/store'), { code: 'ERR_HVD_FILE_SYSTEM' });
  assert.throws(() => Store.create('/tmp', { trainpath: 'x' } as never), wrong);
  for (const runId of ['', '..', 'a/b', '../a', 7]) {
    assert.throws(() => Store.create('/tmp').runPath(runId as string), wrong);
  }
});
