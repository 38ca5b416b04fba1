import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import sharp from 'sharp';
import { sourcePath } from '../../../test/support/repository.ts';
import { decodeExample } from '../../data/formats/example/decode.ts';
import { memoryFile } from '../../data/formats/memory-file.ts';
import { tfRecordFormat } from '../../data/formats/tfrecord/tfrecord-format.ts';
import { run } from '../main.ts';

const folder = mkdtempSync(join(tmpdir(), 'horovod-data-command-'));
after(() => rmSync(folder, { recursive: true }));

describe('horovod data write', () => {
  test('turns a CSV file into shards and says how to read them', async () => {
    const csv = join(folder, 'a.csv');
    writeFileSync(csv, 'label,x,name,rest\n1,0.5,a,z\n2,1.5,"b,c",z\n3,2.5,,z\n');
    const pattern = join(folder, 'csv-{shard}-of-{shards}.tfrecord');
    const { code, out } = await command(
      csv,
      pattern,
      '--shards',
      '2',
      '--columns',
      'label:uint8,x:float32,name:string',
    );
    assert.equal(code, 0);
    assert.match(out, /Wrote 3 records into 2 files/);
    assert.match(
      out,
      /tfRecordDataset\('.*csv-\*-of-\*\.tfrecord'\)\.parseExample\(\{\n {2}label: FixedLenFeature\(\[\], 'uint8'\)/,
    );
    assert.deepEqual(await examplesIn('csv-00000-of-00002.tfrecord'), [
      { label: BigInt64Array.of(1n), x: Float32Array.of(0.5), name: [Uint8Array.of(97)] },
      { label: BigInt64Array.of(3n), x: Float32Array.of(2.5), name: [new Uint8Array(0)] },
    ]);
  });

  test('turns arrays of NumPy into features of their raw bytes', async () => {
    // The mask has as many rows as the others.
    const { code, out } = await command(
      sourcePath('arrays/stored.npz'),
      join(folder, 'npz'),
      '--compression',
      'gzip',
    );
    assert.equal(code, 0);
    assert.match(out, /x: FixedLenFeature\(\[2, 3\], 'float32'\),\n {2}y: FixedLenFeature\(\[\], 'int64'\)/);
    const examples = await examplesIn('npz');
    assert.equal(examples.length, 5);
    const [x] = (examples[1]?.['x'] ?? []) as Uint8Array[];
    assert.deepEqual(
      new Float32Array(Uint8Array.from(x ?? []).buffer),
      Float32Array.of(1.5, 1.75, 2, 2.25, 2.5, 2.75),
    );
  });

  test('turns a folder of images into pixels, or keeps them encoded', async () => {
    const root = join(folder, 'images');
    const png = await sharp({ create: { width: 4, height: 4, channels: 3, background: 'white' } })
      .png()
      .toBuffer();
    for (const name of ['cat', 'dog']) {
      mkdirSync(join(root, name), { recursive: true });
      writeFileSync(join(root, name, '1.png'), png);
    }
    const decoded = await command(root, join(folder, 'pixels'), '--size', '2x1');
    assert.match(decoded.out, /Labels: 0 cat, 1 dog\n.*\n {2}image: FixedLenFeature\(\[2, 1, 3\], 'uint8'\)/);
    assert.deepEqual((await examplesIn('pixels'))[1], {
      image: [new Uint8Array(6).fill(255)],
      label: BigInt64Array.of(1n),
    });
    assert.equal((await command(root, join(folder, 'encoded'), '--keep-encoded')).code, 0);
    assert.deepEqual((await examplesIn('encoded'))[0]?.['image'], [Uint8Array.from(png)]);
  });

  test('mistakes are messages with an exit code, and leave no file', async () => {
    const csv = join(folder, 'bad.csv');
    writeFileSync(csv, 'a\n1\nx\n');
    const before = readdirSync(folder);
    const target = join(folder, 'never');
    const table: readonly (readonly [args: string[], code: number, message: RegExp])[] = [
      [[csv, target, '--columns', 'a:int32'], 1, /column "a" has "x", which is not int32/],
      [[csv, target], 2, /needs --columns/],
      [[csv, target, '--columns', 'a'], 2, /name:type/],
      [[csv, target, '--shards', '2', '--columns', 'a:int32'], 2, /\{shard\}/],
      [[csv, target, '--compression', 'lz4'], 2, /none, gzip or zlib/],
      [[folder, target], 2, /--size/],
      [[join(folder, 'missing.csv'), target], 1, /does not exist/],
      [[csv], 2, /missing/],
    ];
    for (const [args, code, message] of table) {
      const result = await command(...args);
      assert.deepEqual([result.code, args], [code, args]);
      assert.match(result.error, message);
    }
    assert.deepEqual(readdirSync(folder), before);
    assert.match((await command('--help')).out, /Usage: horovod data write SOURCE OUTPUT/);
  });
});

async function command(...args: string[]): Promise<{ code: number; out: string; error: string }> {
  let [out, error] = ['', ''];
  const code = await run(['data', 'write', ...args], {
    out: (text) => {
      out += text;
    },
    error: (text) => {
      error += text;
    },
  });
  return { code, out, error };
}

async function examplesIn(name: string): Promise<ReturnType<typeof decodeExample>[]> {
  const examples: ReturnType<typeof decodeExample>[] = [];
  const file = memoryFile(name, readFileSync(join(folder, name)));
  for await (const { bytes, starts, lengths, count } of tfRecordFormat().stream(file)) {
    for (let i = 0; i < count; i++) {
      const start = starts[i] as number;
      examples.push(decodeExample(bytes.subarray(start, start + (lengths[i] as number))));
    }
  }
  return examples;
}
