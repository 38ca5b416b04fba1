import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { type CsvOptions, csvDecoder, csvFormat, csvHeader } from './csv/csv-format.ts';
import { type ByteFormat, type FormatFile, RecordRanges } from './format.ts';
import { decodeJsonLine, decodeLine } from './json-lines/json-lines-decoder.ts';
import { linesFormat } from './lines/lines-format.ts';
import { memoryFile } from './memory-file.ts';

const code = 'ERR_HVD_DATA_FILE';

describe('lines', () => {
  test('are the same for every size of blocks, plain and gzipped, and where the index says', async () => {
    const line = fc.stringMatching(/^[a-zé ]{0,9}$/);
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 12 }),
        fc.constantFrom('\n', '\r\n'),
        fc.boolean(),
        fc.integer({ min: 1, max: 40 }),
        async (list, ending, isOpen, blockBytes) => {
          const lines = isOpen ? [...list, 'last'] : list;
          const content = Buffer.from(lines.join(ending) + (lines.length > 0 && !isOpen ? ending : ''));
          for (const bytes of content.length > 0 ? [content, gzipSync(content)] : [content]) {
            assert.deepEqual(await textsOf(linesFormat(), memoryFile('x', bytes), blockBytes), lines);
          }
          for (const skipsBlank of [false, true]) {
            const format = linesFormat({ skipsBlank, hasHeader: true });
            const { records, offsets } = await format.index(memoryFile('x', content));
            const wanted = lines.slice(1).filter((each) => !skipsBlank || each !== '');
            assert.equal(records, wanted.length);
            assert.deepEqual(readByIndex(format, content, offsets ?? new Float64Array(1)), wanted);
          }
        },
      ),
    );
  });
});

describe('JSON lines', () => {
  const decode = (text: string) => decodeJsonLine(Buffer.from(text), 0, Buffer.byteLength(text));

  test('lists of numbers become tensors', () => {
    assert.deepEqual(decode('{"x": [[1, 2.5], [3, 4]], "label": 3, "name": "a", "flag": true, "none": []}'), {
      x: { data: Float32Array.of(1, 2.5, 3, 4), shape: [2, 2], dtype: 'float32' },
      label: 3,
      name: 'a',
      flag: 1,
      none: { data: new Float32Array(0), shape: [0], dtype: 'float32' },
    });
  });

  test('what is no sample is an error that shows the line', () => {
    assert.throws(() => decode('{"x": '), { code, message: /is not JSON.*\{"x": / });
    assert.throws(() => decode('[1]'), { code, message: /is not an object/ });
    for (const value of ['null', '[[1], 2]', '[[1], [1, 2]]', '["a"]', '{}']) {
      assert.throws(() => decode(`{"x": ${value}}`), { code, message: /"x", which is no number/ });
    }
  });
});

describe('CSV', () => {
  const options: CsvOptions = { columns: { label: 'int32', x: 'float32', id: 'int64' } };
  const file = memoryFile(
    'a.csv',
    Buffer.from('\ufeffx,"la ""b""",label,id\r\n1.5,"a,b",-3,9007199254740991\r\n\r\n ,z,"4",0\n'),
  );

  test('numbers go into rows, by the names in the first line', async () => {
    const header = await csvHeader(file, options);
    assert.deepEqual(header, ['x', 'la "b"', 'label', 'id']);
    const decoder = csvDecoder(options, header);
    const columns = [new Int32Array(2), new Float32Array(2), new BigInt64Array(2)] as const;
    let row = 0;
    for await (const { bytes, starts, lengths, count } of csvFormat(options).stream(file)) {
      for (let i = 0; i < count; i++)
        decoder.fill(bytes, starts[i] as number, lengths[i] as number, row++, columns);
    }
    assert.deepEqual(columns, [
      Int32Array.of(-3, 4),
      Float32Array.of(1.5, Number.NaN),
      BigInt64Array.of(9007199254740991n, 0n),
    ]);
  });

  test('texts come unquoted, delimiters can be chosen, and line ends may be quoted', async () => {
    const text: CsvOptions = {
      columns: { b: 'string', a: 'uint8' },
      header: ['a', 'b'],
      delimiter: ';',
      quotedNewlines: true,
    };
    const content = Buffer.from('1;"one\nand ""two"""\n255;plain\n');
    const decoder = csvDecoder(text, await csvHeader(memoryFile('x', content), text));
    assert.equal(decoder.columns, null);
    for (const blockBytes of [1, 3, 8, 100]) {
      const elements = [];
      for await (const { bytes, starts, lengths, count } of csvFormat(text).stream(memoryFile('x', content), {
        blockBytes,
      })) {
        for (let i = 0; i < count; i++)
          elements.push(await decoder.element(bytes, starts[i] as number, lengths[i] as number));
      }
      assert.deepEqual(elements, [
        { b: 'one\nand "two"', a: { data: Uint8Array.of(1), shape: [], dtype: 'uint8' } },
        { b: 'plain', a: { data: Uint8Array.of(255), shape: [], dtype: 'uint8' } },
      ]);
    }
    await assert.rejects(textsOf(csvFormat(text), memoryFile('x.csv', Buffer.from('1;"open\n')), 10), {
      code,
      message: /x\.csv: the quote .*never closed/,
    });
  });

  test('numbers of every notation are those of JavaScript', () => {
    const decoder = csvDecoder({ columns: { x: 'float64' }, header: ['x'] }, ['x']);
    fc.assert(
      fc.property(fc.oneof(fc.double({ noNaN: true }), fc.integer(), fc.maxSafeInteger()), (value) => {
        const target = new Float64Array(1);
        const text = Buffer.from(String(value));
        decoder.fill(text, 0, text.length, 0, [target]);
        assert.equal(target[0], Number(String(value)));
      }),
    );
  });

  test('wrong fields are errors that show them', () => {
    const decoder = csvDecoder({ columns: { n: 'uint8' } }, ['n', 'm']);
    const decode = (text: string) => () => decoder.element(Buffer.from(text), 0, text.length);
    for (const field of ['', '256', '-1', '1.5', 'one', '1e3']) {
      assert.throws(decode(`${field},2`), { code, message: /column "n" has ".*", which is not uint8/ });
    }
    assert.throws(decode('1,2,3'), { code, message: /the line has 3 fields instead of 2: 1,2,3/ });
    assert.throws(() => csvDecoder({ columns: { z: 'uint8' } }, ['n', 'm']), {
      code,
      message: /no column "z". It has "n", "m"/,
    });
    assert.throws(() => csvDecoder({ columns: {}, delimiter: '||' }, []), {
      code: 'ERR_HVD_INVALID_ARGUMENT',
    });
  });
});

async function textsOf(format: ByteFormat, file: FormatFile, blockBytes: number): Promise<string[]> {
  const texts: string[] = [];
  for await (const { bytes, starts, lengths, count } of format.stream(file, { blockBytes })) {
    for (let i = 0; i < count; i++) texts.push(decodeLine(bytes, starts[i] as number, lengths[i] as number));
  }
  return texts;
}

/** Each record on its own, as random access reads it. */
function readByIndex(format: ByteFormat, content: Uint8Array, offsets: Float64Array): string[] {
  const ranges = new RecordRanges();
  return Array.from(offsets.subarray(1), (end, i) => {
    const offset = offsets[i] as number;
    const chunk = content.subarray(offset, end);
    format.split(chunk, { location: 'x', offset, isLast: true }, ranges);
    assert.equal(ranges.count, 1);
    return decodeLine(chunk, ranges.starts[0] as number, ranges.lengths[0] as number);
  });
}
