import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startScriptedServer } from '../../test/support/scripted-server.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { Dataset } from './dataset.ts';
import { FixedLenFeature, VarLenFeature } from './formats/example/features.ts';
import { exported } from './plan/function-reference.ts';
import { type TfRecordDatasetOptions, tfRecordDataset } from './sources.ts';
import { writeTfRecords } from './tfrecord-writer.ts';

const functions = new URL('../../test/fixtures/data/functions.js', import.meta.url);
const range = (length: number, from = 0) => Array.from({ length }, (_, each) => from + each);
const sorted = (list: Iterable<number>) => [...list].sort((a, b) => a - b);
const samples = 300;
const features = { id: FixedLenFeature([], 'int32'), image: FixedLenFeature([4, 4], 'uint8') };

interface Batch {
  readonly id: Tensor;
  readonly image: Tensor;
}

/** Threads, and whether the addon is used. */
const manyWays = [
  [0, '0'],
  [1, '1'],
  [4, '0'],
] as const;
const fewWays = [[2, '1']] as const;
/** Those of the JavaScript engine stay the same. */
const threadsOfProcess = () => readdirSync('/proc/self/task').length;

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hvd-data-'));
  for (const compression of ['none', 'gzip'] as const) {
    await writeTfRecords(
      range(samples).map((id) => ({
        id: [id],
        image: new Uint8Array(16).fill(id % 251),
        name: `sample ${id}`,
      })),
      join(folder, `${compression}-{shard}.tfrecord`),
      { shards: 4, compression, index: compression === 'none' },
    );
  }
});
after(() => rm(folder, { recursive: true }));

/** The variable is read when an iterator is opened. */
async function withThreads<R>(threads: number | undefined, run: () => Promise<R>, native = '1'): Promise<R> {
  const before = { ...process.env };
  if (threads !== undefined) process.env['HOROVOD_DATA_THREADS'] = String(threads);
  process.env['HOROVOD_NATIVE'] = native;
  try {
    return await run();
  } finally {
    process.env = before;
  }
}

async function all<T>(dataset: Dataset<T>, limit = Number.POSITIVE_INFINITY): Promise<T[]> {
  const found: T[] = [];
  for await (const each of dataset) if (found.push(each) >= limit) break;
  return found;
}

const open = (kind: 'none' | 'gzip', options: TfRecordDatasetOptions = {}) =>
  tfRecordDataset(join(folder, `${kind}-*.tfrecord`), options);
const idsOf = (batches: readonly unknown[]) =>
  batches.flatMap((batch) => [...((batch as Batch).id.data as Int32Array)]);

describe('datasets of TFRecord files', () => {
  test('are parsed and batched, every sample once', async () => {
    const data = open('none').parseExample<Batch>(features).batch(32);
    assert.equal(data.size, null);
    const batches = await withThreads(0, () => all(data));
    assert.equal(data.size, 10);
    assert.deepEqual(batches[0]?.image.shape, [32, 4, 4]);
    assert.deepEqual(sorted(idsOf(batches)), range(samples));
    for (const { id, image } of batches as Batch[]) {
      for (const [row, each] of id.data.entries()) assert.equal(image.data[row * 16], Number(each) % 251);
    }
  });

  const pipelines: Record<string, (kind: 'none' | 'gzip') => Dataset<unknown>> = {
    'filled batches': (kind) =>
      open(kind, { shuffle: { seed: 1, pool: 100 } })
        .parseExample(features)
        .batch(16),
    'a true permutation': () =>
      open('none', { shuffle: { seed: 1, pool: 'all' } })
        .parseExample(features)
        .batch(16),
    'functions, before and after batches': (kind) =>
      open(kind, { shuffle: { seed: 2, pool: 64 } })
        .parseExample(features)
        .map(exported(functions, 'augment', { factor: 3 }))
        .batch(10)
        .map(exported(functions, 'sumOfBatch'))
        .repeat(2),
    'filters and values of different lengths': (kind) =>
      open(kind, { shuffle: { seed: 3, pool: 64 } })
        .parseExample({ ...features, name: VarLenFeature('string') })
        .filter(exported(functions, 'isOdd'))
        .batch(9),
    'single records': (kind) => open(kind).take(100),
  };
  for (const [name, make] of Object.entries(pipelines)) {
    test(`give the same bits in the main thread, with 1 and 4 threads, with and without the addon: ${name}`, async () => {
      for (const kind of ['none', 'gzip'] as const) {
        const expected = await withThreads(0, () => all(make(kind)));
        assert.ok(expected.length > 10);
        for (const [threads, native] of kind === 'none' ? manyWays : fewWays) {
          assert.deepEqual(await withThreads(threads, () => all(make(kind)), native), expected);
        }
      }
    });
  }

  test('resume in mid-epoch in threads, with another number of ranks', async () => {
    for (const kind of ['none', 'gzip'] as const) {
      const make = (rank: number, size: number) =>
        open(kind, { shuffle: { seed: 4, pool: 100 }, rank, size, uneven: 'exact' })
          .parseExample<Batch>(features)
          .batch(8);
      const first = make(0, 1);
      const taken = idsOf(await withThreads(1, () => all(first, 7)));
      const state = JSON.parse(JSON.stringify(await first.state()));
      for (const rank of range(3)) {
        const data = make(rank, 3);
        data.restore(state);
        taken.push(...idsOf(await withThreads(2, () => all(data))));
      }
      assert.deepEqual(sorted(taken), range(samples));
    }
  });

  test('are read by nextSync() with threads, and not without', async () => {
    const data = open('none').parseExample<Batch>(features).batch(100);
    await withThreads(1, async () => {
      const iterator = data.iterator();
      await iterator.open();
      const ids = idsOf(range(3).map(() => iterator.nextSync().value));
      assert.deepEqual(sorted(ids), range(samples));
      assert.equal(iterator.nextSync().done, true);
    });
    await withThreads(0, async () => {
      const iterator = data.iterator();
      await iterator.open();
      assert.throws(() => iterator.nextSync(), {
        code: 'ERR_HVD_WOULD_BLOCK',
        message: /HOROVOD_DATA_THREADS=0/,
      });
    });
  });

  test('a function that never returns is an error, of next() and of nextSync()', async () => {
    const data = open('none').parseExample(features).map(exported(functions, 'neverReturns')).batch(16);
    const silent = { code: 'ERR_HVD_TIMEOUT', message: /delivered nothing for 0\.3 s.*does not return/ };
    await withThreads(1, async () => {
      process.env['HOROVOD_TIMEOUT_SECONDS'] = '0.3';
      for (const take of ['next', 'nextSync'] as const) {
        const iterator = data.iterator();
        await iterator.open();
        await assert.rejects(async () => iterator[take](), silent);
      }
    });
  });

  test('errors of functions name file, record, position and function', async () => {
    const fails = (module: URL | string = functions, name = 'failsAt') =>
      open('none')
        .parseExample(features)
        .map(exported(module, name, { fails: 137 }))
        .batch(16);
    for (const threads of [0, 2]) {
      await assert.rejects(
        withThreads(threads, () => all(fails())),
        {
          code: 'ERR_HVD_DATA_FUNCTION',
          message:
            /map\(failsAt of .*functions\.js\) failed at record 34 of .*none-00001\.tfrecord, position 109 of epoch 0: this sample is bad/,
        },
      );
      await assert.rejects(
        withThreads(threads, () => all(fails(functions, 'nothing'))),
        { code: 'ERR_HVD_DATA_FUNCTION', message: /no function of this name, only augment/ },
      );
      await assert.rejects(
        withThreads(threads, () => all(fails('/nowhere/at-all.js'))),
        { code: 'ERR_HVD_DATA_FUNCTION', message: /cannot be imported/ },
      );
    }
  });

  test('a function of the main script is rejected', () => {
    const main = process.argv[1] as string;
    assert.throws(() => exported(main, 'x'), {
      code: 'ERR_HVD_INVALID_ARGUMENT',
      message: /file of its own/,
    });
    assert.throws(() => exported('./relative.js', 'x'), { code: 'ERR_HVD_INVALID_ARGUMENT' });
  });

  test('damaged, changed and missing files are errors with a text, in threads too', async () => {
    const path = join(folder, 'damaged.tfrecord');
    const bytes = readFileSync(join(folder, 'none-00000.tfrecord'));
    bytes[1000] = (bytes[1000] as number) ^ 1;
    writeFileSync(path, bytes);
    for (const threads of [0, 1]) {
      await withThreads(threads, async () => {
        await assert.rejects(all(tfRecordDataset(path, { index: 'none' })), {
          code: 'ERR_HVD_DATA_FILE',
          message: /damaged\.tfrecord/,
        });
        const skipping = tfRecordDataset(path, { index: 'none', onCorrupt: 'skip' }).batch(10);
        const batches = await all(skipping);
        assert.equal(batches.flat().length, 74);
        assert.equal(skipping.metrics().damagedRecords, 1);
        // With an index, the record's number is known; of a compressed file, the byte.
        const counted = tfRecordDataset(path, { onCorrupt: 'skip', shuffle: { pool: 64 } });
        assert.equal((await all(counted)).length, 74);
        assert.equal(counted.metrics().damagedRecords, 1);
        await assert.rejects(all(tfRecordDataset(join(folder, 'no-*.tfrecord'))), {
          code: 'ERR_HVD_FILE_SYSTEM',
        });
        await assert.rejects(all(open('gzip', { shuffle: { pool: 'all' } })), {
          code: 'ERR_HVD_INVALID_ARGUMENT',
          message: /compressed/,
        });
      });
    }
  });

  test('of web servers: errors show no secrets of the URL, and say that a server without ranges will not do', async () => {
    const good = readFileSync(join(folder, 'none-00000.tfrecord'));
    const bad = Buffer.from(good);
    bad[1000] = (bad[1000] as number) ^ 1;
    await using server = await startScriptedServer(({ url, headers }, response) => {
      const content = url.pathname === '/bad.tfrecord' ? bad : good;
      const range = /bytes=(\d+)-(\d+)/.exec(headers.range ?? '');
      if (range === null || url.pathname === '/whole.tfrecord') {
        response.writeHead(200, { 'Content-Length': content.length }).end(content);
        return;
      }
      const part = content.subarray(Number(range[1]), Number(range[2]) + 1);
      const from = `bytes ${range[1]}-${Number(range[1]) + part.length - 1}/${content.length}`;
      response.writeHead(206, { 'Content-Range': from, 'Content-Length': part.length }).end(part);
    });
    const at = (name: string) => `http://me:password@${server.host}/${name}.tfrecord?signature=secret`;
    for (const threads of [0, 1]) {
      await withThreads(threads, async () => {
        const data = tfRecordDataset(at('good')).parseExample(features).batch(8);
        assert.equal(idsOf(await all(data)).length, 75);
        await assert.rejects(all(tfRecordDataset(at('whole'))), {
          message:
            /whole\.tfrecord\?… .*the server does not support ranges .* Copy the file to a disk or to HDFS/,
        });
        await assert.rejects(all(tfRecordDataset(at('bad'))), (error: Error) => {
          assert.match(error.message, /http:\/\/127\.0\.0\.1:\d+\/bad\.tfrecord\?…: .*is damaged/);
          assert.doesNotMatch(String(error.stack), /password|secret/);
          return true;
        });
      });
    }
  });

  test('tell how busy each stage was, in the main thread and in threads', async () => {
    for (const threads of [0, 2]) {
      const data = open('gzip')
        .parseExample<{ id: Tensor }>({ id: FixedLenFeature([], 'int32') })
        .map(exported(functions, 'failsAt'))
        .batch(16)
        .map(exported(functions, 'sumOfBatch'));
      await withThreads(threads, () => all(data));
      const { busySeconds, aheadLimit } = data.metrics();
      assert.deepEqual(Object.keys(busySeconds).sort(), [
        'batch',
        'map(failsAt)',
        'map(sumOfBatch)',
        'parse',
        'read',
        'unpack',
      ]);
      assert.ok(Object.values(busySeconds).every((each) => each > 0 && each < 60));
      assert.ok(threads === 0 ? aheadLimit === 1 : aheadLimit >= 2);
    }
  });

  test('a state of other files names the file', async () => {
    const [one, other] = [join(folder, 'one.tfrecord'), join(folder, 'two.tfrecord')];
    for (const path of [one, other]) await writeTfRecords([new Uint8Array(3), new Uint8Array(4)], path);
    const data = tfRecordDataset([one, other]);
    await withThreads(0, () => all(data, 1));
    const state = await data.state();
    await writeTfRecords([new Uint8Array(3)], other);
    const resumed = tfRecordDataset([one, other]);
    resumed.restore(state);
    await assert.rejects(all(resumed), {
      code: 'ERR_HVD_DATA_STATE',
      message: /two\.tfrecord is not what it was/,
    });
  });

  test('a loop that is left early ends the threads', async () => {
    await withThreads(2, async () => {
      const before = threadsOfProcess();
      await all(open('none').batch(10).repeat(), 5);
      assert.equal(threadsOfProcess(), before);
    });
  });
});

describe('release()', () => {
  const open10 = () => open('none', { shard: 'none' }).parseExample<Batch>(features).batch(10);

  test('lends the memory of a batch to later ones, and values stay the same', async () => {
    for (const threads of [0, 1]) {
      await withThreads(threads, async () => {
        const data = open10();
        const iterator = data.iterator();
        const ids: number[] = [];
        const memory = new Set<ArrayBufferLike>();
        for await (const batch of iterator) {
          ids.push(...(batch.id.data as Int32Array));
          memory.add(batch.id.data.buffer);
          iterator.release(batch);
          // A second time has no effect: two batches would share the memory otherwise.
          iterator.release(batch);
        }
        assert.ok(memory.size < 10, `${memory.size} pieces of memory for 30 batches`);
        assert.deepEqual(idsOf(await all(data)), ids);
        assert.deepEqual(sorted(ids), range(samples));
      });
    }
  });

  test('leaves batches alone that were not given back, also if others were', async () => {
    for (const threads of [0, 1]) {
      await withThreads(threads, async () => {
        const iterator = open10().iterator();
        const kept: { batch: Batch; ids: number[] }[] = [];
        let count = 0;
        for await (const batch of iterator) {
          if (count++ % 2 === 0) iterator.release(batch);
          else kept.push({ batch, ids: [...(batch.id.data as Int32Array)] });
        }
        for (const { batch, ids } of kept) assert.deepEqual([...(batch.id.data as Int32Array)], ids);
      });
    }
  });

  test('lends the memory of byte strings, too, unless a function or a cache may have kept them', async () => {
    for (const threads of [0, 1]) {
      await withThreads(threads, async () => {
        const records = open('none', { shard: 'none' });
        const expected = (await all(records)).map((record) => Buffer.from(record).toString('hex'));
        const kept: Uint8Array[] = [];
        const keeping = records.map((record) => {
          kept.push(record);
          return record;
        });
        for (const [data, isLent] of [
          [records.batch(10), true],
          [keeping.batch(10), false],
          [records.cache().batch(10), false],
        ] as const) {
          for (let epoch = 0; epoch < 2; epoch += 1) {
            const iterator = data.iterator();
            const seen: string[] = [];
            const memory = new Set<ArrayBufferLike>();
            for await (const batch of iterator) {
              for (const record of batch as Uint8Array[]) {
                seen.push(Buffer.from(record).toString('hex'));
                memory.add(record.buffer);
              }
              iterator.release(batch);
            }
            assert.deepEqual(seen, expected);
            assert.equal(memory.size < 10, isLent, `${memory.size} pieces of memory`);
          }
        }
        assert.deepEqual(
          kept.map((record) => Buffer.from(record).toString('hex')),
          [...expected, ...expected],
        );
      });
    }
  });

  test('has no effect where a function may have kept the batch, with memory of others, and after the end', async () => {
    const seen: Batch[] = [];
    const mapped = open10().map((batch) => {
      seen.push(batch as Batch);
      return batch as Batch;
    });
    const iterator = mapped.iterator();
    const ids: number[] = [];
    for await (const batch of iterator) {
      ids.push(...(batch.id.data as Int32Array));
      iterator.release(batch);
    }
    assert.deepEqual(idsOf(seen), ids);
    iterator.release(seen[0] as Batch);
    const [first, second] = [open10().iterator(), open10().iterator()];
    const { value: foreign } = await first.next();
    const before = [...(foreign as Batch).id.data];
    await second.next();
    second.release(foreign as Batch);
    await second.next();
    assert.deepEqual([...(foreign as Batch).id.data], before);
    await Promise.all([first.return(), second.return()]);
  });
});
