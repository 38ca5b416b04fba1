import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { errorOf } from '../../test/support/error-of.ts';
import { type AnyCompressor, Compression, type CompressionName } from '../tensor/compression/compression.ts';
import type { ReducingCompressor } from '../tensor/compression/compressor.ts';
import { wire } from '../tensor/compression/wire.ts';
import { Average, Max, Min, Product, Sum } from '../tensor/reduce-op.ts';
import { type Tensor, tensor } from '../tensor/tensor.ts';
import { runContexts } from '../testing/run-contexts.ts';
import { memoryOf } from './collectives/allreduce-compressed.ts';
import { allreduce, groupedAllreduce, join, reducescatter } from './collectives.ts';
import { prepareAllreduce } from './prepared.ts';

const wave = (n: number, rank: number) =>
  Float32Array.from({ length: n }, (_, i) => Math.sin(i * (rank + 1)) * 3);
const lossy: readonly ReducingCompressor[] = [
  Compression.int8,
  Compression.int8With({ blockSize: 32, errorFeedback: true }),
  Compression.topk(0.1, { minElements: 0 }),
  Compression.powersgd(2, { minCompressionRate: 1 }),
];

/** One bit for each value, and one number for all of them: signSGD with error feedback, as a user would write it. */
const sign: ReducingCompressor = {
  name: 'sign',
  errorFeedback: true,
  *reduce(tensors) {
    const sent = tensors.map(({ data }) => {
      const bits = new Uint8Array(Math.ceil(data.length / 8));
      let sum = 0;
      data.forEach((value, i) => {
        sum += Math.abs(value);
        if (value > 0) (bits[i >> 3] as number) |= 1 << (i & 7);
      });
      return [Float32Array.of(sum / Math.max(1, data.length)), bits] as const;
    });
    const parts = yield* wire.allgather(wire.concatenate(sent.flat()));
    let at = 0;
    tensors.forEach(({ data, residual }, t) => {
      const [scale, bits] = sent[t] as [Float32Array, Uint8Array];
      const signOf = (bytes: Uint8Array, i: number) => (((bytes[i >> 3] as number) >> (i & 7)) & 1 ? 1 : -1);
      residual?.forEach((_, i) => {
        residual[i] = (data[i] as number) - (scale[0] as number) * signOf(bits, i);
      });
      data.fill(0);
      for (const part of parts) {
        const [factor] = wire.float32In(part.slice(at, at + 4)) as unknown as [number];
        const theirs = part.subarray(at + 4);
        data.forEach((_, i) => {
          (data[i] as number) += factor * signOf(theirs, i);
        });
      }
      at += 4 + bits.length;
    });
  },
};

describe('an allreduce with a reducing compressor', () => {
  for (const compression of [...lossy, sign]) {
    test(`${compression.name}: all ranks get the same bits, and nothing is lost over many steps`, async () => {
      const steps = 30;
      const n = 24 * 16;
      const results = await runContexts(3, async (context, rank) => {
        const sent = new Float64Array(n);
        let last = new Float32Array();
        for (let step = 0; step < steps; step++) {
          const x = tensor(wave(n, rank), [24, 16]);
          const { data } = await allreduce(context, x, { op: Sum, compression, name: 'gradient' });
          last = data as Float32Array<ArrayBuffer>;
          last.forEach((value, i) => {
            (sent[i] as number) += value;
          });
        }
        return { sent, last };
      });
      for (const { last } of results) assert.deepEqual(last, results[0]?.last);
      const wanted = Float64Array.from({ length: n }, (_, i) =>
        [0, 1, 2].reduce((sum, rank) => sum + (wave(n, rank)[i] as number), 0),
      );
      const norm = (values: Float64Array) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
      const [first] = results as [(typeof results)[number]];
      const error = norm(first.sent.map((value, i) => value / steps - (wanted[i] as number)));
      assert.ok(error < 0.2 * norm(wanted), `off by ${error / norm(wanted)}`);
    });
  }

  test('averages, scales, writes in place and returns the kind that went in', async () => {
    const compression = Compression.int8;
    const results = await runContexts(2, async (context, rank) => {
      const x = Float32Array.of(127, -64, 0).map((value) => value * (rank + 1));
      const scales = { prescaleFactor: 2, postscaleFactor: 0.5 };
      const averaged = await allreduce(context, x, { compression, ...scales });
      const wide = await allreduce(context, tensor(Float64Array.of(127, 1), [2, 1]), {
        op: Sum,
        compression,
      });
      const inPlace = await allreduce(context, x, { op: Average, compression, inPlace: true });
      return { x, averaged, wide, inPlace };
    });
    for (const { x, averaged, wide, inPlace } of results) {
      assert.deepEqual(averaged, Float32Array.of(190.5, -96, 0));
      assert.deepEqual(wide, tensor(Float64Array.of(254, 2), [2, 1]));
      assert.equal(inPlace, x);
      assert.deepEqual(x, averaged);
    }
  });

  test('reduces a group as one collective; integers, half floats and booleans go as they are', async () => {
    const results = await runContexts(2, async (context, rank) => {
      const group = [
        wave(1000, rank),
        Int32Array.of(100_000 + rank, -5),
        tensor(Uint16Array.of(0x3c00), [1], 'float16'),
        new Float32Array(0),
        BigInt64Array.of(2n ** 40n),
        tensor(Uint8Array.of(rank), [1], 'bool'),
        tensor(Float32Array.of(rank + 1), []),
      ] as const;
      const before = context.flightRecord().length;
      const reduced = await groupedAllreduce(context, group, {
        op: Sum,
        compression: Compression.int8,
        name: 'group',
      });
      return { reduced, requests: context.flightRecord().length - before };
    });
    for (const { reduced, requests } of results) {
      assert.equal(requests, 2, 'two steps of int8 for all tensors');
      assert.deepEqual(reduced[0], results[0]?.reduced[0]);
      assert.deepEqual(reduced[1], Int32Array.of(200_001, -10));
      assert.deepEqual([...reduced[2].data], [0x4000]);
      assert.equal(reduced[3].length, 0);
      assert.deepEqual(reduced[4], BigInt64Array.of(2n ** 41n));
      assert.deepEqual([...reduced[5].data], [1]);
      assert.deepEqual(reduced[6], tensor(Float32Array.of(3), []));
    }
  });

  test('of integers alone, or of nothing, still is a collective of all ranks', async () => {
    const results = await runContexts(2, async (context, rank) => {
      const compression = Compression.topk(0.5);
      const sum = await allreduce(context, Int32Array.of(rank), { op: Sum, compression });
      const empty = await allreduce(context, new Float32Array(0), { op: Sum, compression });
      const none = await groupedAllreduce(context, [], { compression });
      return [[...sum], [...empty], none];
    });
    assert.deepEqual(results, [
      [[1], [], []],
      [[1], [], []],
    ]);
  });

  test('has the same bits again with the same input', async () => {
    const run = (compression: AnyCompressor) =>
      runContexts(3, async (context, rank) => {
        const results: Tensor[] = [];
        for (let step = 0; step < 3; step++) {
          const x = tensor(wave(700, rank + step), [35, 20]);
          results.push(await allreduce(context, x, { compression, name: 'x' }));
        }
        return results;
      });
    for (const compression of lossy) assert.deepEqual(await run(compression), await run(compression));
  });

  test('works in process sets, with a memory for each', async () => {
    await runContexts(
      3,
      async (context, rank, { sets: [pair] }) => {
        const compression = Compression.topk(0.1, { minElements: 0 });
        const x = wave(100, rank);
        await allreduce(context, x, { compression, name: 'x' });
        if (rank === 2) return;
        await allreduce(context, x, { compression, name: 'x', processSet: pair });
        const [own, all] = [memoryOf(context, pair, 'test'), memoryOf(context, undefined, 'test')];
        assert.notEqual(own, all);
        assert.deepEqual(own.keys(), all.keys());
      },
      { processSets: [[0, 1]] },
    );
  });

  test('prepared, it keeps its error feedback from run to run', async () => {
    const results = await runContexts(2, async (context, rank) => {
      const compression = Compression.topk(0.25, { minElements: 0 });
      const buffer = new Float32Array(20);
      const prepared = await prepareAllreduce(context, buffer, { op: Sum, compression, name: 'x' });
      const sums = new Float64Array(20);
      for (let step = 0; step < 4; step++) {
        buffer.set(step === 0 ? wave(20, rank) : new Float32Array(20));
        await prepared.run();
        buffer.forEach((value, i) => {
          (sums[i] as number) += value;
        });
      }
      return sums;
    });
    results[0]?.forEach((value, i) => {
      assert.ok(Math.abs(value - (wave(20, 0)[i] as number) - (wave(20, 1)[i] as number)) < 1e-6);
    });
  });
});

describe('error feedback', () => {
  test('is kept by a prepared collective without a name, for itself', async () => {
    const compression = Compression.topk(1 / 8, { minElements: 0 });
    await runContexts(2, async (context) => {
      const [x, y] = [new Float32Array(8), new Float32Array(8)];
      const prepared = await prepareAllreduce(context, [x, y], { op: Sum, compression });
      const other = await prepareAllreduce(context, x, { op: Sum, compression });
      const seen: number[][] = [];
      for (const each of [prepared, prepared, other]) {
        x.set([8, 7]);
        y.set([1, 2]);
        await each.run();
        seen.push([...x.slice(0, 2), ...y.slice(0, 2)]);
      }
      assert.deepEqual(seen, [
        [16, 0, 0, 4],
        [0, 28, 4, 0],
        [16, 0, 1, 2],
      ]);
    });
  });

  test('is kept by name; a call without a name has none', async () => {
    await runContexts(1, async (context) => {
      const compression = Compression.topk(0.1, { minElements: 0 });
      const memory = memoryOf(context, undefined, 'test');
      await allreduce(context, wave(100, 0), { compression });
      assert.equal(memory.size, 0);
      await allreduce(context, wave(100, 0), { compression, name: 'x' });
      await groupedAllreduce(context, [wave(100, 0), wave(50, 0)], { compression, name: 'y' });
      const prefix = compression.name;
      assert.deepEqual(memory.keys(), [`${prefix}/x`, `${prefix}/y[0]`, `${prefix}/y[1]`]);
    });
  });

  test('begins anew when the shape changes, and says so at debug level', async () => {
    await runContexts(1, async (context) => {
      const compression = Compression.topk(0.1, { minElements: 0 });
      const memory = memoryOf(context, undefined, 'test');
      await allreduce(context, wave(100, 0), { compression, name: 'x' });
      assert.ok(memory.get(`${compression.name}/x`)?.residual?.some((value) => value !== 0));
      const result = await allreduce(context, new Float32Array(40), { compression, name: 'x' });
      assert.deepEqual(result, new Float32Array(40));
    });
  });
});

describe('what cannot be', () => {
  const refused = async (act: Parameters<typeof runContexts>[1]) => {
    const [error] = await runContexts(1, async (context, rank, extras) =>
      errorOf((async () => act(context, rank, extras))()),
    );
    return error;
  };

  test('Min, Max and Product of lossy values are refused', async () => {
    for (const compression of lossy) {
      for (const op of [Min, Max, Product]) {
        const error = await refused((context) => allreduce(context, wave(10, 0), { op, compression }));
        assert.equal(error?.code, 'ERR_HVD_INVALID_ARGUMENT');
        assert.match(error?.message ?? '', new RegExp(`takes Sum and Average, not ${op.name}`));
      }
    }
  });

  test('reducescatter has no lossy compression', async () => {
    const error = await refused((context) =>
      reducescatter(context, wave(10, 0), { compression: Compression.int8 }),
    );
    assert.equal(error?.code, 'ERR_HVD_UNSUPPORTED');
  });

  test('a name that no compressor has is refused, with the names there are', async () => {
    for (const name of ['zip', 'topk', 'topk:', 'topk:0.1:2', 'int8:3', 'Fp16', '', 'constructor']) {
      const compression = name as CompressionName;
      const error = await refused((context) => allreduce(context, wave(10, 0), { compression }));
      assert.equal(error?.code, 'ERR_HVD_INVALID_ARGUMENT', name);
      assert.match(
        error?.message ?? '',
        /'none', 'fp16', 'bf16', 'int8', 'topk:0.01' \(a ratio\), 'powersgd:4'/,
      );
    }
    const error = await refused((context) => allreduce(context, wave(10, 0), { compression: 'topk:2' }));
    assert.match(error?.message ?? '', /at most 1/);
  });

  test('names do the same as the compressors', async () => {
    await runContexts(1, async (context) => {
      const pairs = [
        ['none', Compression.none],
        ['bf16', Compression.bf16],
        ['int8', Compression.int8],
        ['topk:0.05', Compression.topk(0.05)],
        ['powersgd:1', Compression.powersgd(1)],
      ] as const;
      for (const [name, compression] of pairs) {
        const x = tensor(wave(2000, 1), [50, 40]);
        assert.deepEqual(
          await allreduce(context, x, { compression: name }),
          await allreduce(context, x, { compression }),
        );
      }
    });
  });

  test('compressors without a name, and what is none at all, are refused', async () => {
    for (const compression of [{}, null, 7, { reduce() {} }, { compress() {}, decompress() {}, name: 1 }]) {
      const error = await refused((context) =>
        allreduce(context, wave(10, 0), { compression: compression as never }),
      );
      assert.equal(error?.code, 'ERR_HVD_INVALID_ARGUMENT');
    }
  });

  test('ranks with different compressors, or different parameters, get an error', async () => {
    const errors = await runContexts(2, async (context, rank) => {
      const compression = Compression.topk(rank === 0 ? 0.1 : 0.2);
      return errorOf(allreduce(context, wave(10, 0), { compression, name: 'x' }));
    });
    for (const error of errors) {
      assert.equal(error?.code, 'ERR_HVD_MISMATCH');
      assert.match(error?.message ?? '', /topk\(0\.1\)/);
      assert.match(error?.message ?? '', /topk\(0\.2\)/);
    }
  });

  test('a rank that has joined cannot take part, and the others get an error', async () => {
    const results = await runContexts(2, async (context, rank) => {
      if (rank === 1) return join(context);
      const error = await errorOf(
        allreduce(context, wave(10, 0), { compression: Compression.int8, name: 'x' }),
      );
      await join(context);
      return error;
    });
    const error = results[0] as Awaited<ReturnType<typeof errorOf>>;
    assert.equal(error?.code, 'ERR_HVD_JOIN_UNSUPPORTED');
    assert.match(
      error?.message ?? '',
      /allreduce with compression int8 is not supported while a rank has joined/,
    );
  });
});

test('values of every size and block border come through int8 within its step', async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(1, 255, 256, 257, 511, 512, 1023), fc.nat(100), async (n, seed) => {
      const results = await runContexts(2, (context, rank) =>
        allreduce(context, wave(n, rank + seed), { op: Sum, compression: Compression.int8 }),
      );
      assert.deepEqual(results[0], results[1]);
      results[0]?.forEach((value, i) => {
        const sum = (wave(n, seed)[i] as number) + (wave(n, seed + 1)[i] as number);
        assert.ok(Math.abs(value - sum) < 0.05);
      });
    }),
    { numRuns: 15 },
  );
});

test('least squares over two ranks end where they do without compression', async () => {
  // Each rank has half of the equations; the solution needs both.
  const [rows, columns] = [64, 24];
  const matrix = (rank: number) =>
    Float32Array.from({ length: rows * columns }, (_, i) => Math.sin((i + 1) ** 2 * (rank + 1)));
  const solution = Float32Array.from({ length: columns * 2 }, (_, i) => Math.cos(i));
  const residualOf = (a: Float32Array, x: Float32Array, row: number, side: number) => {
    let sum = 0;
    for (let j = 0; j < columns; j++)
      sum +=
        (a[row * columns + j] as number) * ((x[2 * j + side] as number) - (solution[2 * j + side] as number));
    return sum;
  };
  const solve = async (compression: AnyCompressor) => {
    const [result] = await runContexts(2, async (context, rank) => {
      const a = matrix(rank);
      const x = new Float32Array(columns * 2);
      for (let step = 0; step < 150; step++) {
        const gradient = new Float32Array(columns * 2);
        for (let row = 0; row < rows; row++) {
          for (const side of [0, 1]) {
            const residual = residualOf(a, x, row, side) / rows;
            for (let j = 0; j < columns; j++)
              (gradient[2 * j + side] as number) += residual * (a[row * columns + j] as number);
          }
        }
        const { data } = await allreduce(context, tensor(gradient, [columns, 2]), {
          compression,
          name: 'gradient',
        });
        for (let i = 0; i < x.length; i++) (x[i] as number) -= 0.5 * (data[i] as number);
      }
      return Math.hypot(...x.map((value, i) => value - (solution[i] as number))) / Math.hypot(...solution);
    });
    return result as number;
  };
  const plain = await solve(Compression.none);
  assert.ok(plain < 0.1, `without compression it is off by ${plain}`);
  for (const compression of [
    Compression.bf16,
    Compression.int8With({ blockSize: 8 }),
    Compression.topk(0.25, { minElements: 0 }),
    Compression.powersgd(1, { minCompressionRate: 1 }),
  ]) {
    const end = await solve(compression);
    assert.ok(end < plain + 0.05, `${compression.name} is off by ${end}, without compression ${plain}`);
  }
});
