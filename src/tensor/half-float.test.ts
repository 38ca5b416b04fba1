import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  bfloat16ToFloat32,
  bfloat16ToNumber,
  float16ToFloat32,
  float16ToNumber,
  float32ToBfloat16,
  float32ToFloat16,
  numberToBfloat16,
  numberToFloat16,
} from './half-float.ts';

const patterns = Uint16Array.from({ length: 65536 }, (_, i) => i);

/** The value of a pattern, from the definition of the format rather than from its bits' place in a float32. */
function valueByDefinition(pattern: number, exponentBits: number): number {
  const fractionBits = 15 - exponentBits;
  const bias = 2 ** (exponentBits - 1) - 1;
  const sign = pattern & 0x8000 ? -1 : 1;
  const exponent = (pattern >>> fractionBits) & (2 ** exponentBits - 1);
  const fraction = pattern & (2 ** fractionBits - 1);
  if (exponent === 2 ** exponentBits - 1) return fraction === 0 ? sign * Infinity : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias - fractionBits);
  return sign * (1 + fraction / 2 ** fractionBits) * 2 ** (exponent - bias);
}

const formats = [
  {
    name: 'float16',
    exponentBits: 5,
    infinity: 0x7c00,
    toNumber: float16ToNumber,
    fromNumber: numberToFloat16,
    widen: float16ToFloat32,
    narrow: float32ToFloat16,
  },
  {
    name: 'bfloat16',
    exponentBits: 8,
    infinity: 0x7f80,
    toNumber: bfloat16ToNumber,
    fromNumber: numberToBfloat16,
    widen: bfloat16ToFloat32,
    narrow: float32ToBfloat16,
  },
];

for (const format of formats) {
  describe(format.name, () => {
    const wide = new Float32Array(65536);
    format.widen(patterns, wide);

    test('every one of the 65536 patterns widens to the value its definition gives', () => {
      for (let pattern = 0; pattern < 65536; pattern++) {
        const expected = valueByDefinition(pattern, format.exponentBits);
        assert.ok(
          Object.is(wide[pattern], expected),
          `0x${pattern.toString(16)}: ${wide[pattern]} ≠ ${expected}`,
        );
        assert.ok(Object.is(format.toNumber(pattern), expected));
      }
    });

    test('every pattern survives the round trip; a NaN stays a NaN', () => {
      const back = new Uint16Array(65536);
      format.narrow(wide, back);
      for (let pattern = 0; pattern < 65536; pattern++) {
        const isNaNPattern = (pattern & 0x7fff) > format.infinity;
        if (isNaNPattern) assert.ok(((back[pattern] as number) & 0x7fff) > format.infinity);
        else assert.equal(back[pattern], pattern);
        assert.equal(
          back[pattern],
          isNaNPattern ? back[pattern] : format.fromNumber(wide[pattern] as number),
        );
      }
    });

    test('between two neighbours the nearer one wins, and at the middle the even one', () => {
      for (let low = 0; low < format.infinity; low++) {
        const a = format.toNumber(low);
        // Beyond the largest finite value the next step of the same size stands for infinity.
        const b = low + 1 === format.infinity ? 2 * a - format.toNumber(low - 1) : format.toNumber(low + 1);
        const middle = a + (b - a) / 2;
        const even = low % 2 === 0 ? low : low + 1;
        const cases: Array<[number, number]> = [[middle, even]];
        const below = nextFloat32(middle, -1);
        const above = nextFloat32(middle, 1);
        if (below > a) cases.push([below, low]);
        if (above < b) cases.push([above, low + 1]);
        for (const [value, expected] of cases) {
          if (Math.fround(value) !== value) continue; // finer than float32: not an input of ours
          assert.equal(format.fromNumber(value), expected, `${value}`);
          assert.equal(format.fromNumber(-value), expected | 0x8000, `${-value}`);
        }
      }
    });

    test('a NaN with its payload in the lowest bit does not become infinity', () => {
      const signalling = new Float32Array(Uint32Array.of(0x7f800001, 0xff800001).buffer);
      const narrow = new Uint16Array(2);
      format.narrow(signalling, narrow);
      for (const pattern of narrow) assert.ok((pattern & 0x7fff) > format.infinity);
    });

    test('values beyond the range become infinity, tiny ones a zero of their sign', () => {
      assert.equal(format.fromNumber(Infinity), format.infinity);
      assert.equal(format.fromNumber(-Infinity), format.infinity | 0x8000);
      assert.equal(format.fromNumber(3.4028234663852886e38), format.infinity);
      assert.equal(format.fromNumber(-(2 ** -149)), 0x8000);
    });
  });
}

function nextFloat32(value: number, direction: 1 | -1): number {
  const word = new Float32Array([value]);
  const bits = new Int32Array(word.buffer);
  bits[0] = (bits[0] as number) + direction;
  return word[0] as number;
}
