import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import fc from 'fast-check';
import sharp from 'sharp';
import { sourcePath } from '../../../test/support/repository.ts';
import { Files } from '../../files/registry.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { imageDecoder, listImageFolder } from './images/image-folder.ts';
import { memoryFile } from './memory-file.ts';
import { npyDecoder, npyFormat, readNpyHeader } from './npy/npy-format.ts';
import { openNpzMember, splitMember } from './npy/npz-member.ts';
import { parquetFormat } from './parquet/parquet-format.ts';

const code = 'ERR_HVD_DATA_FILE';
const fixture = (name: string) => memoryFile(name, readFileSync(sourcePath(join('arrays', name))));
const x = Float32Array.from({ length: 30 }, (_, i) => i / 4);

describe('.npy and .npz files of NumPy', () => {
  test('rows are samples, of plain files and of members that are stored or compressed', async () => {
    for (const file of [
      fixture('x.npy'),
      await openNpzMember(fixture('stored.npz'), 'x'),
      await openNpzMember(fixture('compressed.npz'), 'x.npy'),
    ]) {
      const header = await readNpyHeader(file);
      assert.deepEqual([header.dtype, header.shape], ['float32', [5, 2, 3]]);
      const format = npyFormat(header);
      const decoder = npyDecoder('x', header);
      const { records, offsets } = await format.index(file);
      assert.deepEqual([records, offsets?.[0], offsets?.[5]], [5, header.offset, file.size]);
      for (const blockBytes of [1, 24, 100, 1000]) {
        const column = new Float32Array(30);
        let row = 0;
        for await (const { bytes, starts, lengths, count } of format.stream(file, { blockBytes })) {
          for (let i = 0; i < count; i++) {
            decoder.fill(bytes, starts[i] as number, lengths[i] as number, row++, [column]);
          }
        }
        assert.deepEqual([row, column], [5, x]);
      }
    }
  });

  test('other dtypes, and rows that are single values', async () => {
    const y = await openNpzMember(fixture('stored.npz'), 'y');
    const header = await readNpyHeader(y);
    const bytes = new Uint8Array(8);
    await y.read(bytes, header.offset);
    assert.deepEqual(npyDecoder('y', header).element(bytes, 0, 8), {
      y: { data: BigInt64Array.of(-2n), shape: [], dtype: 'int64' },
    });
    assert.equal((await readNpyHeader(await openNpzMember(fixture('stored.npz'), 'mask'))).dtype, 'bool');
    assert.deepEqual(splitMember('a#b.npz#x'), ['a#b.npz', 'x']);
    assert.deepEqual(splitMember('a.npy'), ['a.npy', undefined]);
  });

  test('arrays that cannot be read as they are, are errors that say what to do', async () => {
    const error = (message: RegExp) => ({ code, message });
    await assert.rejects(readNpyHeader(fixture('fortran.npy')), error(/Fortran order.*ascontiguousarray/));
    await assert.rejects(readNpyHeader(fixture('big-endian.npy')), error(/>i8 is not supported.*astype/));
    await assert.rejects(readNpyHeader(fixture('stored.npz')), error(/not a \.npy file/));
    await assert.rejects(
      openNpzMember(fixture('stored.npz'), 'z'),
      error(/no array "z"\. It has x, y, mask/),
    );
    await assert.rejects(openNpzMember(fixture('x.npy'), 'x'), error(/not an \.npz file/));
    const whole = readFileSync(sourcePath('arrays/x.npy'));
    await assert.rejects(
      readNpyHeader(memoryFile('x', whole.subarray(0, -1))),
      error(/cut off: it has 247 bytes instead of 248/),
    );
  });

  test('hostile archives end in members or errors', async () => {
    const good = readFileSync(sourcePath('arrays/compressed.npz'));
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { maxLength: 5 }),
        async (changes) => {
          const bytes = Uint8Array.from(good);
          for (const [at, byte] of changes) bytes[at] = byte;
          try {
            await readNpyHeader(await openNpzMember(memoryFile('x', bytes), 'x'));
          } catch (error) {
            assert.equal((error as { code?: string }).code, code, String(error));
          }
        },
      ),
      { seed: 1, numRuns: 300 },
    );
  });
});

describe('Parquet files of Arrow', () => {
  test('columns become values of the types asked for, by row groups', async () => {
    const columns = {
      id: 'int64',
      label: 'uint8',
      weight: 'float32',
      name: 'string',
      values: 'float32',
      is_even: 'bool',
    } as const;
    const format = await parquetFormat({ columns });
    assert.deepEqual(await format.index(fixture('snappy.parquet')), { records: 7, blocks: [0, 3, 6, 7] });
    for (const name of ['snappy.parquet', 'gzip.parquet']) {
      const rows = [...(await format.read(fixture(name), 0, 4)), ...(await format.read(fixture(name), 4, 3))];
      assert.deepEqual(
        rows,
        Array.from({ length: 7 }, (_, i) => ({
          id: { data: BigInt64Array.of(BigInt(i)), shape: [], dtype: 'int64' },
          label: { data: Uint8Array.of(i % 3), shape: [], dtype: 'uint8' },
          weight: { data: Float32Array.of(i / 4), shape: [], dtype: 'float32' },
          name: `row ${i}`,
          values: { data: Float32Array.from({ length: i }, (_each, j) => j), shape: [i], dtype: 'float32' },
          is_even: { data: Uint8Array.of(1 - (i % 2)), shape: [], dtype: 'bool' },
        })),
      );
    }
  });

  test('wrong columns, types and files are errors that name them', async () => {
    const file = fixture('snappy.parquet');
    const read = async (columns: Parameters<typeof parquetFormat>[0]['columns']) => {
      const format = await parquetFormat({ columns });
      await format.index(file);
      return format.read(file, 0, 2);
    };
    await assert.rejects(read({ lable: 'int32' }), {
      code,
      message: /no column lable. The file has id, label, /,
    });
    await assert.rejects(read({ weight: 'int32' }), {
      code,
      message: /"weight" of row 1 has 0.25, which is not int32/,
    });
    await assert.rejects(read({ name: 'float32' }), { code, message: /"name" of row 0 has "row 0"/ });
    await assert.rejects((await parquetFormat({ columns: {} })).index(fixture('x.npy')), {
      code,
      message: /not a Parquet file/,
    });
  });
});

describe('folders of images', () => {
  const root = mkdtempSync(join(tmpdir(), 'horovod-images-'));
  after(() => rmSync(root, { recursive: true }));
  const files = new Files(() => readSettings(processEnvironment()));

  test('labels are the places of folders in order, and images are decoded to one shape', async () => {
    const colours = { dog: [0, 0, 255], cat: [255, 0, 0] } as const;
    for (const [name, [r, g, b]] of Object.entries(colours)) {
      mkdirSync(join(root, name));
      const image = sharp({ create: { width: 8, height: 4, channels: 3, background: { r, g, b } } });
      writeFileSync(join(root, name, 'b.png'), await image.png().toBuffer());
      writeFileSync(join(root, name, 'a.PNG'), await image.png().toBuffer());
      writeFileSync(join(root, name, 'notes.txt'), 'no image');
    }
    const { labels, images } = await listImageFolder(files, root);
    assert.deepEqual(labels, ['cat', 'dog']);
    assert.deepEqual(
      images.map(({ location, label }) => [location.slice(location.indexOf(root) + root.length + 1), label]),
      [
        ['cat/a.PNG', 0],
        ['cat/b.png', 0],
        ['dog/a.PNG', 1],
        ['dog/b.png', 1],
      ],
    );
    const content = readFileSync(join(root, 'dog/a.PNG'));
    const element = await (await imageDecoder({ size: [2, 3] })).element(content, 1, 'x');
    assert.deepEqual(element, {
      image: {
        data: Uint8Array.from({ length: 18 }, (_, i) => (i % 3 === 2 ? 255 : 0)),
        shape: [2, 3, 3],
        dtype: 'uint8',
      },
      label: { data: Int32Array.of(1), shape: [], dtype: 'int32' },
    });
    for (const channels of [1, 4] as const) {
      const decoder = await imageDecoder({ size: 2, channels });
      const target = new Uint8Array(new SharedArrayBuffer(4 * channels));
      await decoder.decodeInto(content, target, 'x');
      assert.equal(target[channels - 1] !== 0, true);
    }
    assert.deepEqual((await listImageFolder(files, root, { labels: ['dog'] })).images.length, 2);
  });

  test('folders and files that are none are errors', async () => {
    await assert.rejects(listImageFolder(files, join(root, 'cat')), {
      code,
      message: /there are no folders/,
    });
    await assert.rejects(listImageFolder(files, root, { labels: ['cow'] }), {
      code,
      message: /no folder cow/,
    });
    const decoder = await imageDecoder({ size: 2 });
    await assert.rejects(decoder.element(Buffer.from('text'), 0, 'a.png'), {
      code,
      message: /a\.png: the image cannot be decoded/,
    });
    await assert.rejects(imageDecoder({ size: 0 }), { code: 'ERR_HVD_INVALID_ARGUMENT' });
  });
});
