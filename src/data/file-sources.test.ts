import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import sharp from 'sharp';
import { sourcePath } from '../../test/support/repository.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { Dataset } from './dataset.ts';
import {
  csvDataset,
  imageFolderDataset,
  jsonLinesDataset,
  npyDataset,
  parquetDataset,
  textLineDataset,
} from './file-sources.ts';
import { FixedLenFeature } from './formats/example/features.ts';
import { checkedSettings, type SourceOptions } from './sources.ts';

const range = (length: number, from = 0) => Array.from({ length }, (_, each) => from + each);
const sorted = (list: Iterable<number>) => [...list].sort((a, b) => a - b);
const scalar = (data: Tensor['data'], dtype: Tensor['dtype']): Tensor => ({ data, shape: [], dtype });

const folder = mkdtempSync(join(tmpdir(), 'hvd-sources-'));
const at = (name: string) => join(folder, name);
const array = (name: string) => sourcePath(join('arrays', name));

before(async () => {
  for (const [file, [from, count]] of Object.entries({ 'a.csv': [0, 30], 'b.csv': [30, 23] })) {
    const lines = range(count as number, from).map((id) => `"name, ${id}",${id},${id / 4}\r\n`);
    writeFileSync(at(file), `name,id,value\r\n${lines.join('')}`);
  }
  const text = (from: number, count: number) => range(count, from).map((id) => `line ${id}`);
  writeFileSync(at('a.txt'), text(0, 30).join('\n'));
  writeFileSync(at('b.txt'), gzipSync(`${text(30, 20).join('\r\n')}\r\n`));
  const json = range(40).map((id) => JSON.stringify({ id, x: [[id, 1, 2]], name: `json ${id}` }));
  writeFileSync(at('a.jsonl'), `${json.join('\n\n')}\n`);
  writeFileSync(
    at('x.npy'),
    npy(
      '<f4',
      [45, 2],
      Float32Array.from(range(90), (each) => each / 2),
    ),
  );
  writeFileSync(at('y.npy'), npy('<i4', [45], Int32Array.from(range(45))));
  for (const id of range(24)) {
    const name = join(folder, 'images', id % 2 === 0 ? 'even' : 'odd');
    mkdirSync(name, { recursive: true });
    const image = sharp({
      create: { width: 5, height: 5, channels: 3, background: { r: id, g: 7, b: 9 } },
    });
    writeFileSync(join(name, `${String(id).padStart(3, '0')}.png`), await image.png().toBuffer());
  }
});
after(() => rmSync(folder, { recursive: true }));

/** A file as np.save() writes it. */
function npy(description: string, shape: readonly number[], data: Float32Array | Int32Array): Buffer {
  const text = `{'descr': '${description}', 'fortran_order': False, 'shape': (${shape.join(', ')},), }`;
  const header = `${text.padEnd(117)}\n`;
  const head = Buffer.from([0x93, ...Buffer.from('NUMPY'), 1, 0, header.length, 0]);
  return Buffer.concat([head, Buffer.from(header), Buffer.from(data.buffer)]);
}

const numbers = (value: unknown) => Array.from((value as Tensor).data as Int32Array, Number);

interface Source {
  readonly make: (options?: SourceOptions) => Dataset<unknown>;
  /** The ids of the samples in a batch. */
  readonly idsOf: (batch: never) => number[];
  readonly ids: readonly number[];
  /** The third sample. */
  readonly third: unknown;
}

const parquetColumns = { id: 'int64', weight: 'float32', name: 'string' } as const;
const sources: Readonly<Record<string, Source>> = {
  'csvDataset, numbers': {
    make: (options) => csvDataset(at('*.csv'), { columns: { value: 'float32', id: 'int32' }, ...options }),
    idsOf: ({ id }: { id: Tensor }) => numbers(id),
    ids: range(53),
    third: { value: scalar(Float32Array.of(0.5), 'float32'), id: scalar(Int32Array.of(2), 'int32') },
  },
  'csvDataset, texts': {
    make: (options) => csvDataset(at('*.csv'), { columns: { name: 'string', id: 'int32' }, ...options }),
    idsOf: ({ id }: { id: Tensor }) => numbers(id),
    ids: range(53),
    third: { name: 'name, 2', id: scalar(Int32Array.of(2), 'int32') },
  },
  textLineDataset: {
    make: (options) => textLineDataset([at('a.txt'), at('b.txt')], options),
    idsOf: (lines: string[]) => lines.map((line) => Number(line.slice(5))),
    ids: range(50),
    third: 'line 2',
  },
  jsonLinesDataset: {
    make: (options) => jsonLinesDataset(at('a.jsonl'), options),
    idsOf: ({ id }: { id: Tensor }) => numbers(id),
    ids: range(40),
    third: {
      id: 2,
      x: { data: Float32Array.of(2, 1, 2), shape: [1, 3], dtype: 'float32' },
      name: 'json 2',
    },
  },
  npyDataset: {
    make: (options) => npyDataset({ x: at('x.npy'), y: at('y.npy') }, options),
    idsOf: ({ y }: { y: Tensor }) => numbers(y),
    ids: range(45),
    third: {
      x: { data: Float32Array.of(2, 2.5), shape: [2], dtype: 'float32' },
      y: scalar(Int32Array.of(2), 'int32'),
    },
  },
  imageFolderDataset: {
    // `size` is that of images; a test of ranks in one process needs that of the job.
    make: (options = {}) =>
      options.size === undefined
        ? imageFolderDataset(at('images/'), { ...(options as object), size: [2, 3] })
        : Dataset.create({
            node: 'imageFolderDataset',
            paths: [at('images')],
            format: { size: [2, 3], channels: 3 },
            settings: checkedSettings(options, 'test', []),
          }),
    idsOf: ({ image }: { image: Tensor }) => numbers(image).filter((_, place) => place % 18 === 0),
    ids: range(24),
    third: {
      image: {
        data: Uint8Array.from({ length: 18 }, (_, each) => [4, 7, 9][each % 3] as number),
        shape: [2, 3, 3],
        dtype: 'uint8',
      },
      label: scalar(Int32Array.of(0), 'int32'),
    },
  },
  parquetDataset: {
    make: (options) =>
      parquetDataset([array('snappy.parquet'), array('gzip.parquet')], {
        columns: parquetColumns,
        ...options,
      }),
    idsOf: ({ id }: { id: Tensor }) => numbers(id),
    ids: [...range(7), ...range(7)],
    third: {
      id: scalar(BigInt64Array.of(2n), 'int64'),
      weight: scalar(Float32Array.of(0.5), 'float32'),
      name: 'row 2',
    },
  },
};

/** The variable is read when an iterator is opened. */
async function all<T>(
  dataset: Dataset<T>,
  { threads = 0, limit = Number.POSITIVE_INFINITY } = {},
): Promise<T[]> {
  const before = { ...process.env };
  process.env['HOROVOD_DATA_THREADS'] = String(threads);
  try {
    const found: T[] = [];
    for await (const each of dataset) if (found.push(each) >= limit) break;
    return found;
  } finally {
    process.env = before;
  }
}

for (const [name, { make, idsOf, ids, third }] of Object.entries(sources)) {
  const taken = (batches: readonly unknown[]) => batches.flatMap((batch) => idsOf(batch as never));
  describe(name, () => {
    test('has the values of its files, in their order', async () => {
      assert.deepEqual((await all(make(), { limit: 3 }))[2], third);
      const batches = await all(make().batch(8));
      // Images are sorted by label.
      const expected = name === 'imageFolderDataset' ? [...ids].sort((a, b) => (a % 2) - (b % 2)) : ids;
      assert.deepEqual(taken(batches), expected);
    });

    test('is shuffled, divided among ranks and resumed with another number of them, every sample once', async () => {
      const options = (rank: number, size: number): SourceOptions => ({
        shuffle: { seed: 3, pool: 12 },
        uneven: 'keep',
        rank,
        size,
      });
      const order = taken(await all(make(options(0, 1)).batch(4)));
      assert.notDeepEqual(order, ids);
      const found: number[] = [];
      for (const rank of range(2)) {
        const data = make(options(rank, 2)).batch(2);
        found.push(...taken(await all(data, { limit: 2 })));
        if (rank === 0) continue;
        const state = JSON.parse(JSON.stringify(await data.state()));
        for (const next of range(3)) {
          const resumed = make(options(next, 3)).batch(2);
          resumed.restore(state);
          found.push(...taken(await all(resumed)));
        }
      }
      assert.deepEqual(sorted(found), sorted(ids));
      const own = make({ shard: 'records', rank: 1, size: 2, uneven: 'keep' }).batch(4);
      assert.equal(taken(await all(own)).length, Math.floor(ids.length / 2));
    });

    test('gives the same bits in the main thread and with threads', async () => {
      const shuffled = () => make({ shuffle: { seed: 5, pool: 10 } }).batch(6);
      assert.deepEqual(await all(shuffled(), { threads: 3 }), await all(shuffled()));
      const elements = () => make().skip(1).take(9);
      assert.deepEqual(await all(elements(), { threads: 1 }), await all(elements()));
    });
  });
}

describe('sources of files', () => {
  const code = 'ERR_HVD_DATA_FILE';

  test('arrays of archives, stored and compressed, next to each other', async () => {
    const data = npyDataset({
      x: `${array('compressed.npz')}#x`,
      y: `${array('stored.npz')}#y`,
      mask: `${array('stored.npz')}#mask`,
    }).batch(5);
    for (const threads of [0, 1]) {
      assert.deepEqual(await all(data, { threads }), [
        {
          x: { data: Float32Array.from(range(30), (each) => each / 4), shape: [5, 2, 3], dtype: 'float32' },
          y: { data: BigInt64Array.of(-2n, -1n, 0n, 1n, 2n), shape: [5], dtype: 'int64' },
          mask: { data: Uint8Array.of(0, 0, 0, 1, 1), shape: [5], dtype: 'bool' },
        },
      ]);
    }
    await assert.rejects(all(npyDataset({ x: `${array('stored.npz')}#x`, y: at('y.npy') })), {
      code,
      message: /y\.npy: the array has 45 rows, that of .*stored\.npz#x has 5/,
    });
  });

  test('what is wrong in a record names the file and the record, in threads too', async () => {
    writeFileSync(at('bad.tsv'), 'id\tx\n1\t2\n\n3\tfour\n');
    writeFileSync(at('bad.json'), '{"a":1}\n{"a":\n');
    mkdirSync(at('bad/cat'), { recursive: true });
    writeFileSync(at('bad/cat/1.jpg'), 'no image');
    const columns = { id: 'int32', x: 'float32' } as const;
    const csv = csvDataset(at('bad.tsv'), { columns, delimiter: '\t' });
    const images = imageFolderDataset(at('bad'), { size: 2 });
    for (const threads of [0, 1]) {
      const message = /bad\.tsv, record 1: column "x" has "four", which is not float32/;
      await assert.rejects(all(csv, { threads }), { code, message });
      await assert.rejects(all(csv.batch(2), { threads }), { code, message });
      await assert.rejects(all(jsonLinesDataset(at('bad.json')), { threads }), {
        code,
        message: /bad\.json, record 1: the line is not JSON/,
      });
      for (const data of [images, images.batch(1)]) {
        await assert.rejects(all(data, { threads }), {
          code,
          message: /bad\/cat\/1\.jpg: the image cannot be decoded/,
        });
      }
    }
  });

  test('columns that are missing, or other ones in each file, are errors that name the file', async () => {
    writeFileSync(at('c.tsv'), 'x\tid\n1\t2\n');
    writeFileSync(at('d.tsv'), 'id\tx\n1\t2\n');
    const columns = { id: 'int32' } as const;
    await assert.rejects(all(csvDataset([at('c.tsv'), at('d.tsv')], { columns, delimiter: '\t' })), {
      code,
      message: /d\.tsv: its columns are \["id","x"\]; those of .*c\.tsv are \["x","id"\]/,
    });
    await assert.rejects(all(csvDataset(at('c.tsv'), { columns: { y: 'int32' }, delimiter: '\t' })), {
      code,
      message: /c\.tsv: there is no column "y"/,
    });
    const named = csvDataset(at('c.tsv'), {
      columns,
      delimiter: '\t',
      header: ['id', 'z'],
    });
    await assert.rejects(all(named), { code, message: /record 0: column "id" has "x"/ });
  });

  test('an image that changes while it is read is an error', async () => {
    const path = at('changing');
    mkdirSync(join(path, 'a'), { recursive: true });
    const image = sharp({ create: { width: 2, height: 2, channels: 3, background: 'red' } });
    writeFileSync(join(path, 'a/1.png'), await image.png().toBuffer());
    const data = imageFolderDataset(path, { size: 2 });
    assert.equal((await all(data)).length, 1);
    writeFileSync(join(path, 'a/1.png'), 'short');
    await assert.rejects(all(data), { code, message: /a\/1\.png: has 5 bytes/ });
  });

  test('a folder of Parquet files is read as Spark has written it', async () => {
    const columns = { id: 'int64' } as const;
    const ids = await all(parquetDataset(sourcePath('spark/store/intermediate_train_data'), { columns }));
    assert.deepEqual(
      ids.map(({ id }) => numbers(id)[0]),
      range(240),
    );
    mkdirSync(at('empty'), { recursive: true });
    await assert.rejects(all(parquetDataset(at('empty'), { columns })), {
      code: 'ERR_HVD_DATA_FILE',
      message: /no file \*\.parquet/,
    });
  });

  test('wrong arguments are rejected at once', () => {
    const wrong = { code: 'ERR_HVD_INVALID_ARGUMENT' };
    const columns = { x: 'float32' } as const;
    assert.throws(() => csvDataset('a', { columns: {} }), wrong);
    assert.throws(() => csvDataset('a', { columns: { x: 'float16' } }), wrong);
    assert.throws(() => csvDataset('a', { columns, delimiter: ';;' }), wrong);
    assert.throws(() => csvDataset('a', { columns, header: ['y'] }), wrong);
    assert.throws(() => csvDataset([], { columns }), wrong);
    assert.throws(() => parquetDataset('a', { columns: { x: 'number' as never } }), wrong);
    assert.throws(() => npyDataset({}), wrong);
    assert.throws(() => npyDataset({ x: 'x.npy' }, { shard: 'files' }), { message: /'lanes'/ });
    assert.throws(() => imageFolderDataset('', { size: 2 }), wrong);
    assert.throws(() => imageFolderDataset('a', { size: 0 }), wrong);
    assert.throws(() => imageFolderDataset('a', { size: 2, labels: 'cat' as never }), wrong);
    assert.throws(() => textLineDataset('a').parseExample({ x: FixedLenFeature([], 'int32') }), {
      message: /directly after tfRecordDataset\(\)/,
    });
  });
});
