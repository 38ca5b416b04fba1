import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { tensor } from '../../../tensor/tensor.ts';
import { decodeExample, decodeSequenceExample } from './decode.ts';
import { encodeExample, encodeSequenceExample } from './encode.ts';
import { exampleDecoder } from './example-decoder.ts';
import { type Features, FixedLenFeature, FixedLenSequenceFeature, VarLenFeature } from './features.ts';
import { sequenceExampleDecoder } from './sequence-decoder.ts';

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const float = fc.float({ noNaN: true });
const value = fc.oneof(
  fc.array(int64, { maxLength: 20 }).map((list) => BigInt64Array.from(list)),
  fc.array(float, { maxLength: 20 }).map((list) => Float32Array.from(list)),
  fc.array(fc.uint8Array({ maxLength: 80 }), { minLength: 1, maxLength: 4 }),
);
const values = fc.dictionary(fc.string({ maxLength: 10 }), value, { maxKeys: 8 });

describe('Examples', () => {
  test('come back as they were written', () => {
    fc.assert(
      fc.property(values, (given) =>
        assert.deepEqual({ ...decodeExample(encodeExample(given)) }, { ...given }),
      ),
    );
  });

  test('take their types from the types of the values', () => {
    const given = {
      text: 'é',
      texts: ['a', ''],
      bytes: Uint8Array.of(1, 2),
      image: tensor(Uint8Array.of(1, 2, 3, 4), [2, 2]),
      number: 300,
      negative: -1,
      flag: true,
      big: 2n ** 63n - 1n,
      list: [1, 2n, false],
      nothing: [],
      ints: Int32Array.of(-5, 5),
      mask: tensor(Uint8Array.of(1, 0), [2], 'bool'),
      doubles: Float64Array.of(0.5, -2),
    };
    const bytes = (...list: number[]) => Uint8Array.from(list);
    const encoded = encodeExample(given);
    assert.deepEqual(decodeExample(encoded), {
      text: [bytes(0xc3, 0xa9)],
      texts: [bytes(97), bytes()],
      bytes: [bytes(1, 2)],
      image: [bytes(1, 2, 3, 4)],
      number: BigInt64Array.of(300n),
      negative: BigInt64Array.of(-1n),
      flag: BigInt64Array.of(1n),
      big: BigInt64Array.of(2n ** 63n - 1n),
      list: BigInt64Array.of(1n, 2n, 0n),
      nothing: new BigInt64Array(0),
      ints: BigInt64Array.of(-5n, 5n),
      mask: BigInt64Array.of(1n, 0n),
      doubles: Float32Array.of(0.5, -2),
    });
  });

  test('reject values that have no type of their own', () => {
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    assert.throws(() => encodeExample({ x: 1.5 }), {
      code,
      message: /x: 1\.5 is not a whole number.*Float32Array/,
    });
    assert.throws(() => encodeExample({ x: [1, 'a'] as never }), { code, message: /x is a list with/ });
    assert.throws(() => encodeExample({ x: 2n ** 63n }), { code, message: /64 bits/ });
    assert.throws(() => encodeExample({ x: {} as never }), { code });
    assert.throws(() => encodeExample([] as never), { code, message: /an object of values by name/ });
  });

  test('numbers may be packed or not, in one part or several, with fields nobody knows between them', () => {
    const packed = encodeExample({ n: Int32Array.of(1, 300, -1), f: Float32Array.of(0.5, 2) });
    const varint = [0x08, 1, 0x08, 0xac, 0x02, 0x08, ...Array<number>(9).fill(255), 1];
    const floats = [0x0d, 0, 0, 0, 0x3f, 0x0d, 0, 0, 0, 0x40];
    const unknown = [0x28, 7, 0x31, 1, 2, 3, 4, 5, 6, 7, 8, 0x3a, 2, 9, 9, 0x45, 1, 2, 3, 4];
    const loose = field(1, [
      ...unknown,
      ...field(1, [
        ...field(1, text('n')),
        ...unknown,
        ...field(2, [...unknown, ...field(3, [...varint, ...unknown])]),
      ]),
      ...field(1, [
        ...field(1, text('f')),
        ...field(2, [...field(2, floats.slice(0, 5)), ...field(2, floats.slice(5))]),
      ]),
    ]);
    const expected = { n: BigInt64Array.of(1n, 300n, -1n), f: Float32Array.of(0.5, 2) };
    const features: Features = { n: FixedLenFeature([3], 'int32'), f: FixedLenFeature([2], 'float32') };
    for (const bytes of [packed, Uint8Array.from([...loose, ...unknown])]) {
      assert.deepEqual(decodeExample(bytes), expected);
      const { n, f } = exampleDecoder(features).element(bytes) as Record<string, { data: unknown }>;
      assert.deepEqual([n?.data, f?.data], [Int32Array.of(1, 300, -1), Float32Array.of(0.5, 2)]);
    }
  });

  test('of an entry that comes twice, the last one counts', () => {
    const twice = Buffer.concat([encodeExample({ x: 1, y: 5 }), encodeExample({ x: 2 })]);
    assert.deepEqual(decodeExample(twice), { x: BigInt64Array.of(2n), y: BigInt64Array.of(5n) });
    const { x } = exampleDecoder({ x: FixedLenFeature([], 'int32') }).element(twice) as Record<
      string,
      { data: unknown }
    >;
    assert.deepEqual(x?.data, Int32Array.of(2));
  });
});

describe('rows of a batch', () => {
  const features: Features = {
    image: FixedLenFeature([2, 2], 'uint8'),
    label: FixedLenFeature([], 'int32'),
    id: FixedLenFeature([], 'int64'),
    x: FixedLenFeature([3], 'float32', [1, 2, 3]),
    wide: FixedLenFeature([2], 'float64', 0.5),
  };
  const decoder = exampleDecoder(features);

  test('are filled in shared memory at any place, in any order of features', () => {
    const arrays = [Uint8Array, Int32Array, BigInt64Array, Float32Array, Float64Array];
    const columns = (decoder.columns ?? []).map(({ elements }, i) => {
      const kind = arrays[i] as typeof Float64Array;
      return new kind(new SharedArrayBuffer(3 * elements * kind.BYTES_PER_ELEMENT) as never);
    });
    const first = encodeExample({
      image: Uint8Array.of(1, 2, 3, 4),
      label: -7,
      id: 2n ** 53n + 1n,
      x: Float32Array.of(4, 5, 6),
      wide: Float32Array.of(8, 9),
    });
    const second = encodeExample({
      id: -1,
      other: 'x',
      label: 3,
      image: tensor(Uint8Array.of(9, 8, 7, 6), [2, 2]),
    });
    // Records begin at any byte of a chunk.
    const chunk = Buffer.concat([Buffer.alloc(3), first, second]);
    decoder.fill(chunk, 3, first.length, 2, columns);
    decoder.fill(chunk, 3 + first.length, second.length, 0, columns);
    assert.deepEqual(
      columns.map((column) => [...(column as unknown as Iterable<unknown>)]),
      [
        [9, 8, 7, 6, 0, 0, 0, 0, 1, 2, 3, 4],
        [3, 0, -7],
        [-1n, 0n, 2n ** 53n + 1n],
        [1, 2, 3, 0, 0, 0, 4, 5, 6],
        [0.5, 0.5, 0, 0, 8, 9],
      ],
    );
  });

  test('equal what was encoded, for random features and records', () => {
    fc.assert(
      fc.property(fc.array(values, { minLength: 1, maxLength: 5 }), (records) => {
        for (const record of records) {
          const wanted = Object.fromEntries(
            Object.entries(record).map(([name, each]) => [
              name,
              each instanceof BigInt64Array
                ? FixedLenFeature([each.length], 'int64')
                : each instanceof Float32Array
                  ? FixedLenFeature([each.length], 'float32')
                  : FixedLenFeature([each.length], 'string'),
            ]),
          );
          const element = exampleDecoder(wanted).element(encodeExample(record)) as Record<
            string,
            { data: unknown }
          >;
          for (const [name, each] of Object.entries(record)) {
            assert.deepEqual(Array.isArray(each) ? element[name] : element[name]?.data, each);
          }
        }
      }),
    );
  });

  test('what does not fit is an error that says what was found', () => {
    const good = { image: Uint8Array.of(1, 2, 3, 4), label: 1, id: 1 };
    const decode = (input: Parameters<typeof encodeExample>[0]) => () =>
      decoder.element(encodeExample(input));
    const code = 'ERR_HVD_DATA_FILE';
    assert.throws(decode({ label: 1 }), { code, message: /no feature "image".*It has "label"/ });
    assert.throws(decode({}), { code, message: /none of the features asked for/ });
    assert.throws(decode({ ...good, image: Uint8Array.of(1) }), {
      code,
      message:
        /"image" is asked for as uint8 with shape \[2, 2\], which needs 4 values, but .* 1 byte strings of 1 bytes/,
    });
    assert.throws(decode({ ...good, label: 2 ** 31 }), {
      code,
      message: /"label" .*does not fit into int32.*int64/,
    });
    assert.throws(decode({ ...good, label: [1, 2] }), { code, message: /2 int64 values/ });
    assert.throws(decode({ ...good, label: Float32Array.of(1) }), { code, message: /1 float values/ });
    assert.throws(decode({ ...good, x: [1, 2, 3] }), { code, message: /"x" is asked for as float32/ });
    assert.throws(() => decoder.element(Buffer.from('label,pixel')), { code, message: /not an Example/ });
  });
});

test('values of any number are tensors of their length, and lists of byte strings', () => {
  const decoder = exampleDecoder({
    n: VarLenFeature('int64'),
    f: VarLenFeature('float32'),
    s: VarLenFeature('string'),
    pairs: FixedLenSequenceFeature([2], 'int32'),
    name: FixedLenFeature([], 'string', 'nobody'),
  });
  assert.equal(decoder.columns, null);
  const element = decoder.element(encodeExample({ n: [1, -2], s: ['a', 'b'], pairs: [1, 2, 3, 4] }));
  assert.deepEqual(element, {
    n: { data: BigInt64Array.of(1n, -2n), shape: [2], dtype: 'int64' },
    f: { data: new Float32Array(0), shape: [0], dtype: 'float32' },
    s: [Uint8Array.of(97), Uint8Array.of(98)],
    pairs: { data: Int32Array.of(1, 2, 3, 4), shape: [2, 2], dtype: 'int32' },
    name: new TextEncoder().encode('nobody'),
  });
  assert.throws(() => decoder.element(encodeExample({ pairs: [1, 2, 3] })), { code: 'ERR_HVD_DATA_FILE' });
  assert.throws(() => decoder.fill(new Uint8Array(0), 0, 0, 0, []), {
    code: 'ERR_HVD_INVALID_ARGUMENT',
    message: /n, f, s/,
  });
});

test('SequenceExamples come back as they were written, and as tensors over the steps', () => {
  const given = {
    context: { id: BigInt64Array.of(4n) },
    sequence: {
      frames: [Float32Array.of(1, 2), Float32Array.of(3, 4), Float32Array.of(5, 6)],
      tokens: [BigInt64Array.of(1n), BigInt64Array.of(), BigInt64Array.of(2n, 3n)],
      words: [[Uint8Array.of(97)], [Uint8Array.of(98), Uint8Array.of(99)]],
    },
  };
  const bytes = encodeSequenceExample(given);
  assert.deepEqual(decodeSequenceExample(bytes), given);
  assert.deepEqual(decodeSequenceExample(encodeSequenceExample({})), { context: {}, sequence: {} });
  const decoder = sequenceExampleDecoder(
    { id: FixedLenFeature([], 'int32') },
    {
      frames: FixedLenSequenceFeature([2], 'float32'),
      tokens: VarLenFeature('int32'),
      words: VarLenFeature('string'),
      absent: FixedLenSequenceFeature([], 'float32'),
    },
  );
  assert.deepEqual(decoder.element(bytes, 0, bytes.length), {
    id: { data: Int32Array.of(4), shape: [], dtype: 'int32' },
    frames: { data: Float32Array.of(1, 2, 3, 4, 5, 6), shape: [3, 2], dtype: 'float32' },
    tokens: { data: Int32Array.of(1, 2, 3), shape: [3], dtype: 'int32' },
    'tokens/lengths': { data: Int32Array.of(1, 0, 2), shape: [3], dtype: 'int32' },
    words: [Uint8Array.of(97), Uint8Array.of(98), Uint8Array.of(99)],
    'words/lengths': { data: Int32Array.of(1, 2), shape: [2], dtype: 'int32' },
    absent: { data: new Float32Array(0), shape: [0], dtype: 'float32' },
  });
  const wrong = sequenceExampleDecoder({}, { frames: FixedLenSequenceFeature([3], 'float32') });
  assert.throws(() => wrong.element(bytes, 0, bytes.length), {
    code: 'ERR_HVD_DATA_FILE',
    message: /"frames" .*3 values for each step, but step 0 has 2 float values/,
  });
  assert.throws(() => sequenceExampleDecoder({ x: VarLenFeature('int64') }, { x: VarLenFeature('int64') }), {
    code: 'ERR_HVD_INVALID_ARGUMENT',
  });
});

test('hostile bytes end in values or in ERR_HVD_DATA_FILE, and nothing outside the record is read', () => {
  const decoders = [
    exampleDecoder({
      n: FixedLenFeature([2], 'int32'),
      f: FixedLenFeature([2], 'float32'),
      s: VarLenFeature('string'),
    }),
    exampleDecoder({
      n: VarLenFeature('int64'),
      f: VarLenFeature('float64'),
      s: FixedLenFeature([1], 'string'),
    }),
    sequenceExampleDecoder({ n: VarLenFeature('int64') }, { f: FixedLenSequenceFeature([2], 'float32') }),
  ];
  const good = encodeExample({ n: [1, 2], f: Float32Array.of(1, 2), s: 'text' });
  const sequence = encodeSequenceExample({ context: { n: 1 }, sequence: { f: [Float32Array.of(1, 2)] } });
  const mutated = fc
    .tuple(
      fc.constantFrom(good, sequence),
      fc.array(fc.tuple(fc.nat(99), fc.nat(255)), { maxLength: 4 }),
      fc.nat(99),
    )
    .map(([bytes, changes, cut]) => {
      const copy = Uint8Array.from(bytes);
      for (const [at, byte] of changes) copy[at % copy.length] = byte;
      return cut < 50 ? copy.subarray(0, cut % copy.length) : copy;
    });
  fc.assert(
    fc.property(fc.oneof(mutated, fc.uint8Array({ maxLength: 60 })), fc.nat(9), (bytes, offset) => {
      // What surrounds the record would be read as valid fields by a reader that runs on.
      const chunk = Buffer.concat([good.subarray(0, offset), bytes, good, good]);
      const outcomes = decoders.flatMap((decoder) => [
        outcomeOf(() => decoder.element(chunk, offset, bytes.length)),
        outcomeOf(() => decoder.element(Uint8Array.from(bytes), 0, bytes.length)),
      ]);
      for (let i = 0; i < outcomes.length; i += 2) assert.deepEqual(outcomes[i], outcomes[i + 1]);
      assert.deepEqual(
        outcomeOf(() => decodeExample(bytes)).code ?? 'ERR_HVD_DATA_FILE',
        'ERR_HVD_DATA_FILE',
      );
      assert.deepEqual(
        outcomeOf(() => decodeSequenceExample(bytes)).code ?? 'ERR_HVD_DATA_FILE',
        'ERR_HVD_DATA_FILE',
      );
    }),
    { seed: 1, numRuns: 2000 },
  );
});

function outcomeOf(run: () => unknown): { value?: unknown; code?: unknown; message?: string } {
  try {
    return { value: run() };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    assert.equal(code, 'ERR_HVD_DATA_FILE', message);
    return { code, message };
  }
}

/** A length-prefixed field. */
function field(number: number, content: readonly number[]): number[] {
  const length: number[] = [];
  let rest = content.length;
  for (; rest >= 128; rest >>= 7) length.push((rest & 127) | 128);
  return [number * 8 + 2, ...length, rest, ...content];
}

function text(string: string): number[] {
  return [...Buffer.from(string)];
}
