import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compressible, reduceTogether } from '../../../test/support/reduce-together.ts';
import { int8, int8With } from './int8.ts';
import { plainKernels } from './kernels.ts';

const float32 = () => fc.float({ noNaN: true, noDefaultInfinity: true });

function roundTrip(values: Float32Array): Float32Array {
  const packet = new Uint8Array(4 + values.length);
  plainKernels.quantize(values, values.length, packet, 0, 4);
  const back = new Float32Array(values.length);
  plainKernels.dequantize(back, back.length, packet, 0, 4, false);
  return back;
}

describe('codes of a block', () => {
  test('are off by at most half a step, whatever the size of the numbers', () => {
    fc.assert(
      fc.property(fc.array(float32(), { minLength: 1, maxLength: 300 }), (numbers) => {
        const values = Float32Array.from(numbers);
        const back = roundTrip(values);
        const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
        // Scales of the smallest numbers there are have few bits themselves.
        const allowed = (largest / 127) * 0.50001 + 127 * 2 ** -149;
        values.forEach((value, i) => {
          assert.ok(Math.abs((back[i] as number) - value) <= allowed, `${value} became ${back[i]}`);
        });
      }),
    );
  });

  test('of the largest numbers there are stay finite', () => {
    const largest = Math.fround(3.4028234663852886e38);
    for (const value of [largest, -largest, largest * (1 - 2 ** -23), largest * (1 - 2 ** -22)]) {
      const [back] = roundTrip(Float32Array.of(value));
      assert.ok(Math.abs((back as number) / value - 1) < 1e-5, `${value} became ${back}`);
    }
  });

  test('keep zeros, signs and the largest value', () => {
    assert.deepEqual(roundTrip(Float32Array.of(0, -127, 127, 1)), Float32Array.of(0, -127, 127, 1));
    assert.deepEqual(roundTrip(new Float32Array(5)), new Float32Array(5));
  });

  test('round to the nearest, ties to even', () => {
    assert.deepEqual(
      roundTrip(Float32Array.of(127, 0.5, 1.5, 2.5, -0.5, -1.5)),
      Float32Array.of(127, 0, 2, 2, 0, -2),
    );
  });

  test('carry what is not finite as NaN, without touching its neighbours', () => {
    const back = roundTrip(
      Float32Array.of(127, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -3),
    );
    assert.deepEqual(back, Float32Array.of(127, Number.NaN, Number.NaN, Number.NaN, -3));
    assert.deepEqual(roundTrip(Float32Array.of(Number.NaN, 0)), Float32Array.of(Number.NaN, 0));
  });
});

describe('Compression.int8', () => {
  for (const size of [1, 2, 3, 5]) {
    test(`gives ${size} members the same bits, close to the sum`, () => {
      fc.assert(
        fc.property(
          fc.array(fc.nat(70), { maxLength: 4 }),
          fc.infiniteStream(fc.float({ min: -100, max: 100, noNaN: true })),
          (lengths, stream) => {
            const next = () => stream.next().value as number;
            const given = Array.from({ length: size }, () =>
              lengths.map((n) => Float32Array.from({ length: n }, next)),
            );
            const members = given.map((list) => list.map((values) => compressible(values)));
            reduceTogether(int8With({ blockSize: 16 }), members);
            lengths.forEach((length, t) => {
              const result = members[0]?.[t]?.data as Float32Array;
              for (const member of members) assert.deepEqual(member[t]?.data, result);
              for (let i = 0; i < length; i++) {
                const sum = given.reduce((total, list) => total + (list[t]?.[i] as number), 0);
                // Each member's coding and that of the sum: half a 127th of the largest of the block each.
                assert.ok(Math.abs((result[i] as number) - sum) <= (size * 100 * 2 * 0.51) / 127 + 1e-3);
              }
            });
          },
        ),
        { numRuns: 40 },
      );
    });
  }

  test('moves about a quarter of the bytes', () => {
    const n = 100_000;
    const members = Array.from({ length: 4 }, () => [compressible(new Float32Array(n).fill(1))]);
    const received = reduceTogether(int8, members);
    const plain = (2 * 4 * n * 3) / 4;
    for (const bytes of received)
      assert.ok(bytes < plain * 0.26 && bytes > plain * 0.24, `${bytes} of ${plain}`);
  });

  test('with error feedback loses nothing: what was sent and what is left make up what was given', () => {
    const size = 3;
    const n = 700;
    const residuals = Array.from({ length: size }, () => new Float32Array(n));
    const given = new Float64Array(n);
    const sent = new Float64Array(n);
    const compressor = int8With({ errorFeedback: true });
    for (let step = 0; step < 10; step++) {
      const members = residuals.map((residual, rank) => {
        const values = Float32Array.from({ length: n }, (_, i) => Math.sin(i * (rank + 1) + step));
        values.forEach((value, i) => {
          (given[i] as number) += value;
        });
        return [compressible(values, [n], residual)];
      });
      reduceTogether(compressor, members);
      members[0]?.[0]?.data.forEach((value, i) => {
        (sent[i] as number) += value;
      });
    }
    for (let i = 0; i < n; i++) {
      const left = residuals.reduce((sum, residual) => sum + (residual[i] as number), 0);
      assert.ok(Math.abs((given[i] as number) - (sent[i] as number) - left) < 1e-4);
      assert.ok(Math.abs(left) < 0.1, 'the residual does not grow');
    }
  });

  test('a step that is not finite does not spoil the next one', () => {
    const residual = new Float32Array(4);
    const step = (values: number[]) => {
      const members = [[compressible(values, [4], residual)]];
      reduceTogether(int8With({ errorFeedback: true }), members);
      return members[0]?.[0]?.data as Float32Array;
    };
    assert.deepEqual([...step([1, Number.NaN, 3, 127])], [1, Number.NaN, 3, 127]);
    assert.deepEqual([...step([1, 2, 3, 127])], [1, 2, 3, 127]);
  });

  test('rejects invalid block sizes', () => {
    for (const blockSize of [0, 3, 1.5, -4, 2 ** 20, Number.NaN, '256' as unknown as number]) {
      assert.throws(() => int8With({ blockSize }), { code: 'ERR_HVD_INVALID_ARGUMENT' });
    }
  });

  test('has its parameters in the name by which ranks compare', () => {
    assert.equal(int8.name, 'int8');
    assert.equal(int8With({ blockSize: 64, errorFeedback: true }).name, 'int8(blocks of 64, error feedback)');
  });
});
