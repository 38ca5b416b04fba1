import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { deflateSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { loadNative } from '../../../transport/native/load.ts';
import { type FormatFile, type RecordBlock, RecordRanges } from '../format.ts';
import { compressionOf } from '../inflate.ts';
import { memoryFile } from '../memory-file.ts';
import { crc32c, maskCrc } from './crc32c.ts';
import { frameRecord } from './framing.ts';
import { portableRecordKernels, type RecordKernels } from './record-kernels.ts';
import { type TfRecordOptions, tfRecordFormat } from './tfrecord-format.ts';

const native = loadNative();
const kernelsByName: readonly (readonly [string, RecordKernels | undefined])[] = [
  ['JavaScript', portableRecordKernels],
  ['the addon', native.built ? native.addon.recordKernels : undefined],
];
const noAddon = native.built ? false : native.reason;

describe('CRC-32C', () => {
  test('of the published strings', () => {
    assert.equal(crc32c(Buffer.from('123456789')), 0xe3069283);
    assert.equal(crc32c(Buffer.alloc(32)), 0x8a9136aa);
    assert.equal(crc32c(Buffer.alloc(32, 0xff)), 0x62a8ab43);
    assert.equal(crc32c(Buffer.alloc(0)), 0);
  });

  test('of any part of any bytes equals a loop over bits, in JavaScript and in the addon', {
    skip: noAddon,
  }, () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(50), fc.nat(50), (bytes, start, less) => {
        const from = Math.min(start, bytes.length);
        const to = Math.max(from, bytes.length - less);
        let crc = ~0;
        for (let at = from; at < to; at++) {
          crc ^= bytes[at] as number;
          for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
        }
        assert.equal(crc32c(bytes, from, to), ~crc >>> 0);
        for (const [, kernels] of kernelsByName) assert.equal(kernels?.crc32c(bytes, from, to), ~crc >>> 0);
      }),
    );
  });

  test('of long input is the same in the addon', { skip: noAddon }, () => {
    const bytes = pseudoRandom(100_003);
    for (const [, kernels] of kernelsByName)
      assert.equal(kernels?.crc32c(bytes, 3, 99_990), crc32c(bytes, 3, 99_990));
  });
});

for (const [name, kernels] of kernelsByName) {
  describe(`records found by ${name}`, { skip: kernels === undefined ? String(noAddon) : false }, () => {
    const format = (options: TfRecordOptions = {}) => tfRecordFormat({ kernels, ...options });
    const samples = [0, 1, 30, 200, 0, 7].map((length, i) => pseudoRandom(length, i));
    const file = Buffer.concat(samples.map((data) => frameRecord(data)));

    test('a chunk cut anywhere gives the records before the cut', () => {
      const ranges = new RecordRanges(2);
      for (let cut = 0; cut <= file.length; cut++) {
        const chunk = file.subarray(0, cut);
        format().split(chunk, { location: 'x', offset: 0, isLast: false }, ranges);
        const whole = wholeRecordsIn(samples, cut);
        assert.equal(ranges.count, whole);
        assert.deepEqual(recordsIn(chunk, ranges), samples.slice(0, whole));
        assert.ok(ranges.consumed + ranges.needed > cut);
      }
    });

    test('blocks of any size give the same records, from plain, gzip and zlib files', async () => {
      for (const content of [file, gzipSync(file), deflateSync(file)]) {
        for (const blockBytes of [1, 2, 13, 16, 17, 64, 100, 1000]) {
          const blocks = await blocksOf(format().stream(memoryFile('x', content, 7), { blockBytes }));
          assert.deepEqual(blocks.flatMap(recordsOf), samples);
          assert.deepEqual(
            blocks.map(({ first }) => first),
            blocks.map((_, i) => blocks.slice(0, i).reduce((sum, { count }) => sum + count, 0)),
          );
        }
      }
    });

    test('memory of the caller is used, and the first records can be skipped', async () => {
      for (let skip = 0; skip <= samples.length + 1; skip++) {
        const given: SharedArrayBuffer[] = [];
        const released: ArrayBufferLike[] = [];
        const blocks = await blocksOf(
          format().stream(memoryFile('x', file), {
            skip,
            blockBytes: 40,
            allocate: (bytes) => {
              const memory = new SharedArrayBuffer(bytes);
              given.push(memory);
              return new Uint8Array(memory);
            },
            release: ({ buffer }) => released.push(buffer),
          }),
        );
        assert.deepEqual(blocks.flatMap(recordsOf), samples.slice(skip));
        assert.equal(blocks[0]?.first ?? skip, skip);
        for (const { bytes } of blocks) {
          assert.ok(given.includes(bytes.buffer as SharedArrayBuffer) && !released.includes(bytes.buffer));
        }
      }
    });

    test('the index has every record, of a file with small and with large ones', async () => {
      const large = [10, 300_000, 5, 2_000_000, 0, 140_000].map((length) =>
        frameRecord(pseudoRandom(length)),
      );
      for (const list of [samples.map((data) => frameRecord(data)), large, []]) {
        const content = Buffer.concat(list);
        const { records, offsets } = await format().index(memoryFile('x', content));
        assert.equal(records, list.length);
        const ends = list.map((_, i) => Buffer.concat(list.slice(0, i + 1)).length);
        assert.deepEqual([...(offsets ?? [])], [0, ...ends]);
        assert.deepEqual(await format().index(memoryFile('x', gzipSync(content))), {
          records: list.length,
          offsets: null,
        });
      }
    });

    test('a flipped bit anywhere is an error that says where, and can be skipped', async () => {
      const before = samples.slice(0, 3).reduce((sum, { length }) => sum + length + 16, 0);
      for (let bit = 8 * before; bit < 8 * (before + 216); bit += 5) {
        const damaged = Buffer.from(file);
        damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7));
        await assert.rejects(blocksOf(format().stream(memoryFile('bad.tfrecord', damaged))), {
          code: 'ERR_HVD_DATA_FILE',
          message: new RegExp(`bad\\.tfrecord: the record at byte ${before} .*checksum.*onCorrupt: 'skip'`),
        });
        const blocks = await blocksOf(format({ onCorrupt: 'skip' }).stream(memoryFile('x', damaged)));
        assert.deepEqual(
          blocks.flatMap(recordsOf),
          samples.filter((_, i) => i !== 3),
        );
        assert.deepEqual(
          blocks.flatMap((block) => block.damaged),
          [before],
        );
      }
    });

    test('damaged data passes unnoticed only if asked for', async () => {
      const damaged = Buffer.from(file);
      damaged[file.length - 5] = 1 ^ (damaged[file.length - 5] as number);
      const blocks = await blocksOf(format({ verifyCrc: false }).stream(memoryFile('x', damaged)));
      assert.equal(blocks.flatMap(recordsOf).length, samples.length);
    });

    test('a truncated file is an error that says how much is missing; with skip, the rest is read', async () => {
      for (let cut = 1; cut < 23; cut++) {
        const short = file.subarray(0, file.length - cut);
        const error = { code: 'ERR_HVD_DATA_FILE', message: /ends inside the record at byte \d+/ };
        await assert.rejects(blocksOf(format().stream(memoryFile('x', short))), error);
        await assert.rejects(format().index(memoryFile('x', short)), error);
        const skipping = format({ onCorrupt: 'skip' });
        const blocks = await blocksOf(skipping.stream(memoryFile('x', short)));
        assert.deepEqual(blocks.flatMap(recordsOf), samples.slice(0, -1));
        assert.equal((await skipping.index(memoryFile('x', short))).records, samples.length - 1);
      }
      await assert.rejects(blocksOf(format().stream(memoryFile('x', gzipSync(file).subarray(0, 60)))), {
        code: 'ERR_HVD_DATA_FILE',
        message: /gzip data is damaged \(the file ends too early\)/,
      });
    });

    test('another kind of file is an error that shows how it begins', async () => {
      const text = Buffer.from('label,pixel0,pixel1\n1,2,3\n');
      await assert.rejects(blocksOf(format().stream(memoryFile('a.csv', text))), {
        code: 'ERR_HVD_DATA_FILE',
        message: /a\.csv: this is not a TFRecord file: it begins with 6c 61 62/,
      });
    });

    test('any bytes end in records or an error, never in a hang', async () => {
      const pieces = fc.oneof(
        fc.uint8Array({ maxLength: 40 }),
        fc.uint8Array({ maxLength: 20 }).map((data) => frameRecord(data)),
        fc.nat().map((length) => headerOf(length)),
      );
      await fc.assert(
        fc.asyncProperty(
          fc.array(pieces, { maxLength: 6 }),
          fc.integer({ min: 1, max: 80 }),
          async (list, blockBytes) => {
            const content = Buffer.concat(list);
            const options = { compression: 'none', onCorrupt: 'skip' } as const;
            const blocks = await blocksOf(format(options).stream(memoryFile('x', content), { blockBytes }));
            for (const block of blocks)
              for (const record of recordsOf(block)) assert.ok(record.length <= content.length);
          },
        ),
      );
    });
  });
}

test('the kind of compression is seen in the first bytes, and a length that looks like one is not', () => {
  assert.equal(compressionOf(gzipSync('x')), 'gzip');
  for (const level of [1, 6, 9]) assert.equal(compressionOf(deflateSync('some text', { level })), 'zlib');
  assert.equal(compressionOf(new Uint8Array(0)), 'none');
  assert.equal(compressionOf(frameRecord(new Uint8Array(0x9c78))), 'none');
});

test('a file that shrinks while it is read is an error', async () => {
  const file: FormatFile = { location: 'x', size: 100, read: async () => 0 };
  await assert.rejects(blocksOf(tfRecordFormat({ compression: 'none' }).stream(file)), {
    code: 'ERR_HVD_DATA_FILE',
    message: /changed while it was read/,
  });
});

function headerOf(length: number): Uint8Array {
  const header = Buffer.alloc(12);
  header.writeUInt32LE(length);
  header.writeUInt32LE(maskCrc(crc32c(header, 0, 8)), 8);
  return header;
}

function wholeRecordsIn(samples: readonly Uint8Array[], cut: number): number {
  let end = 0;
  return samples.filter(({ length }) => {
    end += length + 16;
    return end <= cut;
  }).length;
}

async function blocksOf(blocks: AsyncIterable<RecordBlock>): Promise<RecordBlock[]> {
  const list: RecordBlock[] = [];
  for await (const block of blocks) list.push(block);
  return list;
}

function recordsOf({ bytes, starts, lengths, count }: RecordBlock): Uint8Array[] {
  return Array.from({ length: count }, (_, i) => {
    const start = starts[i] as number;
    return Uint8Array.from(bytes.subarray(start, start + (lengths[i] as number)));
  });
}

function recordsIn(chunk: Uint8Array, { starts, lengths, count }: RecordRanges): Uint8Array[] {
  return Array.from({ length: count }, (_, i) =>
    Uint8Array.from(chunk.subarray(starts[i], (starts[i] as number) + (lengths[i] as number))),
  );
}

function pseudoRandom(length: number, seed = 1): Uint8Array {
  let state = seed + 1;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return state >>> 24;
  });
}
