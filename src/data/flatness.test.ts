// What a process holds does not grow with the batches and epochs that it has taken: memory, descriptors and threads, of pipelines over
// files and of the parts of a data service.

import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { TestService } from '../../test/support/data-service.ts';
import type { Dataset } from './dataset.ts';
import { FixedLenFeature } from './formats/example/features.ts';
import { rangeDataset, tfRecordDataset } from './sources.ts';
import { writeTfRecords } from './tfrecord-writer.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/**
 * A leak of a batch, or of a small object, per batch would exceed them. Resident memory is the least precise: freed memory is kept, and on
 * Node 24 the young generations of both threads take more than 100 MB before they stay as they are.
 */
const mayGrow = {
  heapUsed: 2_000_000,
  arrayBuffers: 4_000_000,
  rss: 250_000_000,
  descriptors: 0,
  threads: 0,
};
type Holdings = { readonly [name in keyof typeof mayGrow]: number };

function holdings(): Holdings {
  collectGarbage();
  collectGarbage();
  const { heapUsed, arrayBuffers, rss } = process.memoryUsage();
  const count = (name: string) => readdirSync(`/proc/self/${name}`).length;
  return { heapUsed, arrayBuffers, rss, descriptors: count('fd'), threads: count('task') };
}

/** Every other batch is given back. Compares after a third of the batches with the end. */
async function checkFlat(dataset: Dataset, batches: number): Promise<void> {
  const iterator = dataset.iterator();
  let before: Holdings | undefined;
  for (let taken = 0; taken < batches; taken += 1) {
    const { value, done } = await iterator.next();
    assert.notEqual(done, true);
    if (taken % 2 === 0) iterator.release(value);
    if (taken === Math.floor(batches / 3)) before = holdings();
  }
  const [now, then] = [holdings(), before as Holdings];
  for (const name of Object.keys(mayGrow) as (keyof Holdings)[]) {
    const growth = now[name] - then[name];
    assert.ok(growth <= mayGrow[name], `${name} grew by ${growth}: ${JSON.stringify([then, now])}`);
  }
  await iterator.return();
}

describe('what a process holds stays flat', { timeout: 120_000 }, () => {
  test('over 30 000 batches and 750 epochs of files, read in threads', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'hvd-data-flat-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const records = Array.from({ length: 160 }, (_, id) => ({ id: [id], image: new Uint8Array(1024) }));
    await writeTfRecords(records, join(folder, '{shard}.tfrecord'), { shards: 2 });
    const threads = process.env['HOROVOD_DATA_THREADS'];
    process.env['HOROVOD_DATA_THREADS'] = '1';
    t.after(() => {
      if (threads === undefined) delete process.env['HOROVOD_DATA_THREADS'];
      else process.env['HOROVOD_DATA_THREADS'] = threads;
    });
    const data = tfRecordDataset(join(folder, '*.tfrecord'), { shuffle: { seed: 1, pool: 64 } })
      .parseExample({ id: FixedLenFeature([], 'int32'), image: FixedLenFeature([1024], 'uint8') })
      .batch(4);
    await checkFlat(data.repeat() as Dataset, 30_000);
  });

  test('over 6000 batches and 300 epochs of a data service', async () => {
    await using service = await TestService.start({ workers: 2 });
    const plan = rangeDataset(0, 160, { shuffle: { seed: 1, pool: 'all' } })
      .batch(8)
      .repeat();
    await checkFlat(service.through(plan as Dataset), 6000);
  });
});
