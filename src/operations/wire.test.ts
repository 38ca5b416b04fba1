import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { errorOf } from '../../test/support/error-of.ts';
import { Compression } from '../tensor/compression/compression.ts';
import type { HalfDType } from '../tensor/half-float.ts';
import { narrow, widen } from '../tensor/half-float.ts';
import { Average, Sum } from '../tensor/reduce-op.ts';
import { tensor } from '../tensor/tensor.ts';
import { runContexts } from '../testing/run-contexts.ts';
import { planAllreduce } from './collectives/allreduce.ts';
import { allreduce, groupedAllreduce, join, reducescatter } from './collectives.ts';
import { prepareAllreduce } from './prepared.ts';

const wave = (length: number, rank: number) =>
  Float32Array.from({ length }, (_, i) => Math.sin(i * (rank + 1)) * 1000);

function halvesOf(values: Float32Array, dtype: HalfDType): Uint16Array {
  const halves = new Uint16Array(values.length);
  narrow(dtype, values, halves);
  return halves;
}

function wide(halves: Uint16Array, dtype: HalfDType): Float32Array {
  const values = new Float32Array(halves.length);
  widen(dtype, halves, values);
  return values;
}

for (const [name, dtype] of [
  ['fp16', 'float16'],
  ['bf16', 'bfloat16'],
] as const) {
  const compression = Compression[name];
  describe(`compression ${name}`, () => {
    test('gives the bits of an allreduce of halves, scaled and not, in place and not', async () => {
      await runContexts(3, async (context, rank) => {
        for (const options of [{}, { op: Sum, prescaleFactor: 1 / 3, postscaleFactor: 0.7 }]) {
          const given = wave(1001, rank);
          const halves = { data: halvesOf(given, dtype), shape: [1001], dtype };
          const sum = await allreduce(context, halves, options);
          const expected = wide(sum.data as Uint16Array, dtype);
          assert.deepEqual(await allreduce(context, given, { ...options, compression }), expected);
          assert.deepEqual(given, wave(1001, rank));
          await allreduce(context, given, { ...options, compression, inPlace: true });
          assert.deepEqual(given, expected);
        }
      });
    });

    test('of a group with float64, halves and whole numbers: each goes its way', async () => {
      await runContexts(2, async (context, rank) => {
        const single = wave(10, rank);
        const given = [single, Float64Array.from(single), Int32Array.of(rank + 1)];
        const own = { data: halvesOf(single, dtype), shape: [10], dtype };
        const halves = await allreduce(context, own, { op: Sum });
        const expected = wide(halves.data as Uint16Array, dtype);
        const list = [...given, own];
        const results = await groupedAllreduce(context, list, { op: Sum, compression });
        assert.deepEqual(results, [expected, Float64Array.from(expected), Int32Array.of(3), halves]);
      });
    });

    test('reduce-scatters to the same bits', async () => {
      await runContexts(3, async (context, rank) => {
        const given = wave(14, rank);
        const x = tensor(given, [7, 2]);
        const halves = { data: halvesOf(given, dtype), shape: [7, 2], dtype };
        const part = await reducescatter(context, halves, { op: Average });
        const result = await reducescatter(context, x, { op: Average, compression });
        assert.deepEqual(result.shape, part.shape);
        assert.deepEqual(result.data, wide(part.data as Uint16Array, dtype));
      });
    });

    test('prepared once, it runs again and again on the same arrays', async () => {
      await runContexts(2, async (context, rank) => {
        const buffers = [wave(100, rank), wave(33, rank + 2)];
        const prepared = await prepareAllreduce(context, buffers, { op: Sum, compression });
        for (let run = 0; run < 3; run++) {
          for (const [i, buffer] of buffers.entries()) buffer.set(wave(buffer.length, rank + 2 * i + run));
          const list = buffers.map((buffer) => ({
            data: halvesOf(buffer, dtype),
            shape: [buffer.length],
            dtype,
          }));
          const sums = await groupedAllreduce(context, list, { op: Sum });
          await prepared.run();
          for (const [i, sum] of sums.entries())
            assert.deepEqual(buffers[i], wide(sum.data as Uint16Array, dtype));
        }
      });
    });

    test('a rank that has joined takes part with zeros', async () => {
      await runContexts(2, async (context, rank) => {
        if (rank === 1) {
          const given = wave(50, 1);
          const sum = await groupedAllreduce(context, [given, Int32Array.of(7)], { op: Sum, compression });
          assert.deepEqual(sum, [wide(halvesOf(given, dtype), dtype), Int32Array.of(7)]);
        }
        await join(context);
      });
    });

    test('makes no arrays for what is float32 and in place', () => {
      const given = wave(10, 0);
      const members = { ranks: [0, 1], index: 0 };
      const plan = planAllreduce({
        xs: [given],
        isGrouped: false,
        options: { compression, inPlace: true },
        members,
        what: 'allreduce',
      });
      const [operation] = plan.operations;
      assert.ok(operation?.kind === 'allreduce');
      assert.equal(operation.wire, dtype);
      assert.equal(operation.inputs[0], given);
      assert.equal(operation.outputs[0], given);
      assert.equal(plan.isRepeatable, true);
    });
  });
}

test('ranks that compress differently, or not all, get an error that says so', async () => {
  for (const other of [undefined, Compression.bf16]) {
    await runContexts(2, async (context, rank) => {
      const compression = rank === 0 ? Compression.fp16 : other;
      const error = await errorOf(allreduce(context, wave(4, rank), { name: 'x', compression }));
      assert.equal(error.code, 'ERR_HVD_MISMATCH');
    });
  }
});
