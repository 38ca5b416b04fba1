import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { tensor } from '../tensor.ts';
import { Compression } from './compression.ts';

describe('Compression.none', () => {
  test('does nothing at all', () => {
    const x = tensor(Float32Array.of(1, 2));
    const { tensor: sent, context } = Compression.none.compress(x);
    assert.equal(sent, x);
    assert.equal(Compression.none.decompress(sent, context), x);
  });
});

for (const [name, compressor, dtype, relativeError] of [
  ['fp16', Compression.fp16, 'float16', 2 ** -11],
  ['bf16', Compression.bf16, 'bfloat16', 2 ** -8],
] as const) {
  describe(`Compression.${name}`, () => {
    for (const original of ['float32', 'float64'] as const) {
      test(`halves ${original} and restores dtype, shape and values`, () => {
        fc.assert(
          fc.property(
            fc.array(fc.double({ min: -1000, max: 1000, noNaN: true }), { minLength: 1 }),
            (numbers) => {
              const array = original === 'float32' ? Float32Array : Float64Array;
              const x = tensor(array.from(numbers), [numbers.length, 1]);
              const { tensor: sent, context } = compressor.compress(x);
              assert.equal(sent.dtype, dtype);
              assert.deepEqual(sent.shape, x.shape);
              assert.equal(sent.data.byteLength, 2 * numbers.length);
              const back = compressor.decompress(sent, context);
              assert.equal(back.dtype, original);
              assert.deepEqual(back.shape, x.shape);
              assert.ok(back.data instanceof array);
              numbers.forEach((value, i) => {
                const difference = Math.abs(Number(back.data[i]) - value);
                assert.ok(difference <= Math.abs(value) * relativeError + 2 ** -25, `${value}`);
              });
            },
          ),
        );
      });
    }

    for (const x of [
      tensor(Int32Array.of(100_000)),
      tensor(BigInt64Array.of(5n)),
      tensor(Uint16Array.of(0x3c00), [1], 'float16'),
      tensor(Uint16Array.of(0x3f80), [1], 'bfloat16'),
      tensor(Uint8Array.of(1), [1], 'bool'),
    ]) {
      test(`lets ${x.dtype} pass as it is`, () => {
        const { tensor: sent, context } = compressor.compress(x);
        assert.equal(sent, x);
        assert.equal(compressor.decompress(sent, context), x);
      });
    }
  });
}
