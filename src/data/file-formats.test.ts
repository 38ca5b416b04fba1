import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { Tensor } from '../tensor/tensor.ts';
import type { Dataset } from './dataset.ts';
import {
  csvDataset,
  imageFolderDataset,
  jsonLinesDataset,
  npyDataset,
  parquetDataset,
  textLineDataset,
} from './sources.ts';

const range = (length: number) => Array.from({ length }, (_, each) => each);
let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hvd-formats-'));
});
after(() => rm(folder, { recursive: true }));

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

/** In the main thread and with a thread. */
async function bothWays<T>(make: () => Dataset<T>): Promise<T[]> {
  const found: T[][] = [];
  for (const threads of ['0', '1']) {
    process.env['HOROVOD_DATA_THREADS'] = threads;
    const list: T[] = [];
    for await (const each of make()) list.push(each);
    found.push(list);
  }
  delete process.env['HOROVOD_DATA_THREADS'];
  assert.deepEqual(found[1], found[0]);
  return found[0] as T[];
}

function npy(shape: readonly number[], description: string, values: ArrayBufferView): Uint8Array {
  const text = `{'descr': '${description}', 'fortran_order': False, 'shape': (${shape.join(', ')},), }`;
  const header = text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11, ' ');
  return Buffer.concat([
    Buffer.from('\x93NUMPY\x01\x00', 'latin1'),
    Buffer.from(Uint16Array.of(header.length + 1).buffer),
    Buffer.from(`${header}\n`),
    Buffer.from(values.buffer),
  ]);
}

describe('datasets of other formats', () => {
  test('lines of text, also gzipped, shuffled and batched', async () => {
    const lines = range(40).map((each) => `line ${each}`);
    const paths = [
      file('a.txt', `${lines.slice(0, 15).join('\n')}\n`),
      file('b.txt.gz', gzipSync(lines.slice(15).join('\r\n'))),
    ];
    assert.deepEqual(await bothWays(() => textLineDataset(paths)), lines);
    const batches = await bothWays(() => textLineDataset(paths, { shuffle: { seed: 1, pool: 12 } }).batch(8));
    assert.deepEqual(batches.flat().sort(), [...lines].sort());
    assert.notDeepEqual(batches.flat(), lines);
  });

  test('JSON lines', async () => {
    const path = file('a.jsonl', '{"x": [1, 2], "y": 3}\n\n{"x": [3, 4], "y": 5}\n');
    const [batch] = await bothWays(() => jsonLinesDataset<{ x: Tensor; y: number }>(path).batch(2));
    assert.deepEqual(batch?.x, { data: Float32Array.of(1, 2, 3, 4), shape: [2, 2], dtype: 'float32' });
    assert.deepEqual(batch?.y, { data: Float64Array.of(3, 5), shape: [2], dtype: 'float64' });
  });

  test('CSV, with the names of columns from the file', async () => {
    const path = file('a.csv', 'name,age,size\n"Smith, A.",31,1.5\nB,32,2.5\nC,33,3.5\n');
    const columns = { age: 'int32', size: 'float32' } as const;
    const [batch] = await bothWays(() =>
      csvDataset<{ age: Tensor; size: Tensor }>(path, { columns }).batch(3),
    );
    assert.deepEqual(batch?.age, { data: Int32Array.of(31, 32, 33), shape: [3], dtype: 'int32' });
    assert.deepEqual(batch?.size.data, Float32Array.of(1.5, 2.5, 3.5));
    const rows = await bothWays(() => csvDataset<{ name: unknown }>(path, { columns: { name: 'string' } }));
    assert.equal(rows.length, 3);
    await assert.rejects(
      bothWays(() => csvDataset(path, { columns: { height: 'float32' } })),
      {
        code: 'ERR_HVD_DATA_FILE',
        message: /no column "height".*"name", "age", "size"/,
      },
    );
  });

  test('arrays of NumPy', async () => {
    const x = file('x.npy', npy([5, 2], '<f4', Float32Array.from(range(10))));
    const y = file('y.npy', npy([5], '|u1', Uint8Array.from(range(5))));
    const batches = await bothWays(() => npyDataset({ x, y }).batch(3));
    assert.deepEqual(batches[0]?.x, {
      data: Float32Array.of(0, 1, 2, 3, 4, 5),
      shape: [3, 2],
      dtype: 'float32',
    });
    assert.deepEqual(batches[1]?.y, { data: Uint8Array.of(3, 4), shape: [2], dtype: 'uint8' });
    const short = file('short.npy', npy([4], '|u1', new Uint8Array(4)));
    await assert.rejects(
      bothWays(() => npyDataset({ x, short })),
      { code: 'ERR_HVD_DATA_FILE', message: /4 rows/ },
    );
  });

  test('images in folders of their classes', async () => {
    const { default: sharp } = await import('sharp');
    for (const [label, background] of Object.entries({ blue: '#0000ff', red: '#ff0000' })) {
      mkdirSync(join(folder, 'images', label), { recursive: true });
      for (const each of range(3)) {
        const image = sharp({ create: { width: 6, height: 4, channels: 3, background } });
        await image.png().toFile(join(folder, 'images', label, `${each}.png`));
      }
    }
    const [batch] = await bothWays(() =>
      imageFolderDataset(join(folder, 'images'), { size: [2, 3] }).batch(6),
    );
    assert.deepEqual(batch?.image.shape, [6, 2, 3, 3]);
    assert.deepEqual(batch?.label.data, Int32Array.of(0, 0, 0, 1, 1, 1));
    assert.deepEqual([...(batch?.image.data ?? [])].slice(0, 3), [0, 0, 255]);
  });

  test('wrong options are rejected', () => {
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    assert.throws(() => csvDataset('x.csv', {} as never), { code, message: /columns/ });
    assert.throws(() => parquetDataset('x', { columns: {} }), { code });
    assert.throws(() => npyDataset({}), { code });
    assert.throws(() => textLineDataset([]), { code });
  });
});
