import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type DType, dtypeNames, dtypes, type TypedArray } from './dtype.ts';
import { float32ToBfloat16, float32ToFloat16 } from './half-float.ts';
import { reduceInto, scaleInto } from './reduce.ts';
import { Max, Min, Product, Sum } from './reduce-op.ts';
import { areaBytes, createPlainKernels, createSimdKernels, type ReduceKernels } from './wasm-reduce.ts';

const lengths = [...Array.from({ length: 68 }, (_, i) => i), 4097];
const ops = [Sum, Min, Max, Product];

const simd = createSimdKernels(1 << 20);

test('this Node has WASM SIMD', () => {
  assert.equal(simd?.kind, 'simd');
});

for (const [name, kernels] of [
  ['simd', simd],
  ['plain', createPlainKernels(1 << 20)],
] as const) {
  if (kernels === undefined) continue;
  describe(`${name} kernels give the bits of reduceInto`, () => {
    for (const dtype of dtypeNames) {
      test(dtype, () => {
        for (const length of lengths) {
          for (const op of ops) {
            for (const members of [1, 2, 3]) {
              for (const postscale of dtype === 'bool' ? [1] : [1, 1 / 3]) {
                const inputs = Array.from({ length: members }, (_, m) =>
                  patterns(dtype, length, 7 * length + m),
                );
                const expected = inputs[0]?.slice() as TypedArray;
                reduceInto(expected, inputs, dtype, op, 1, postscale);
                for (const alias of [-1, members - 1]) {
                  const areas = inputs.map((input, m) => put(kernels, m * areaBytes(100_000), input));
                  const output = alias < 0 ? members * areaBytes(100_000) : (areas[alias] as number);
                  kernels.reduce(output, areas, length, dtype, op, postscale);
                  sameBits(get(kernels, output, dtype, length), expected, dtype, `${op.name} of ${length}`);
                }
              }
            }
          }
        }
      });
    }

    test('a prescale too', () => {
      for (const dtype of dtypeNames.filter((each) => each !== 'bool')) {
        for (const length of lengths) {
          const input = patterns(dtype, length, length);
          const expected = input.slice();
          scaleInto(expected, input, dtype, -1 / 3);
          put(kernels, 64, input);
          kernels.scale(64, length, dtype, -1 / 3);
          sameBits(get(kernels, 64, dtype, length), expected, dtype, `scale of ${length}`);
        }
      }
    });

    test('and every float16 and bfloat16 pattern, and every rounding case', () => {
      for (const dtype of ['float16', 'bfloat16'] as const) {
        const all = Uint16Array.from({ length: 65536 }, (_, i) => i);
        for (const factor of [1.0009765625, 1 / 3, 65536, 2 ** -12]) {
          const expected = all.slice();
          scaleInto(expected, all, dtype, factor);
          put(kernels, 0, all);
          kernels.scale(0, all.length, dtype, factor);
          sameBits(get(kernels, 0, dtype, all.length), expected, dtype, `× ${factor}`);
        }
      }
    });
  });
}

test('what lies in the next area stays', () => {
  for (const kernels of [simd, createPlainKernels(4096)]) {
    if (kernels === undefined) continue;
    for (const dtype of dtypeNames) {
      for (let length = 0; length < 67; length++) {
        const size = areaBytes(length * dtypes[dtype].bytes);
        kernels.staging.fill(0x55, 0, 4 * size + 64);
        kernels.reduce(2 * size, [0, size], length, dtype, Sum, 1);
        assert.ok(kernels.staging.subarray(3 * size, 4 * size + 64).every((byte) => byte === 0x55));
      }
    }
  }
});

function put(kernels: ReduceKernels, area: number, values: TypedArray): number {
  kernels.staging.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), area);
  return area;
}

function get(kernels: ReduceKernels, area: number, dtype: DType, length: number): TypedArray {
  const bytes = kernels.staging.slice(area, area + length * dtypes[dtype].bytes);
  return new (dtypes[dtype].arrays[0] as unknown as new (b: ArrayBufferLike) => TypedArray)(bytes.buffer);
}

/** Equal values of equal sign; which NaN it is, is not defined. */
function sameBits(actual: TypedArray, expected: TypedArray, dtype: DType, what: string): void {
  const infinity = dtype === 'float16' ? 0x7c00 : dtype === 'bfloat16' ? 0x7f80 : undefined;
  const isNaNPattern = (value: unknown) => infinity !== undefined && ((value as number) & 0x7fff) > infinity;
  for (let i = 0; i < expected.length; i++) {
    const [a, b] = [actual[i], expected[i]];
    if (!Object.is(a, b) && !(isNaNPattern(a) && isNaNPattern(b)))
      assert.fail(`${what}, element ${i}: ${a} ≠ ${b}`);
  }
}

function patterns(dtype: DType, length: number, seed: number): TypedArray {
  let state = seed | 1;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return state;
  };
  // Ordinary values with a NaN, an infinity and zeros of both signs among them.
  const floats = Float32Array.from({ length }, (_, i) => {
    const value = next() / 2 ** 24;
    return (
      [value, value, value, 1e-40 * value, -0, 0, Number.NaN, Infinity, value][
        i % 9 === 0 ? next() & 7 : 0
      ] ?? value
    );
  });
  if (dtype === 'float32') return floats;
  if (dtype === 'float64') return Float64Array.from(floats);
  if (dtype === 'float16' || dtype === 'bfloat16') {
    const halves = new Uint16Array(length);
    if (dtype === 'float16') float32ToFloat16(floats, halves);
    else float32ToBfloat16(floats, halves);
    return halves;
  }
  if (dtype === 'bool') return Uint8Array.from({ length }, () => (next() >>> 16) & 1);
  if (dtype === 'int64') return BigInt64Array.from({ length }, () => BigInt(next()) * BigInt(next()));
  const integers = new (dtypes[dtype].arrays[0] as unknown as new (n: number) => Int32Array)(length);
  for (let i = 0; i < length; i++) integers[i] = next();
  return integers;
}
