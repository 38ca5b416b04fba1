import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { errorOf } from '../../test/support/error-of.ts';
import { Compression } from '../tensor/compression/compression.ts';
import { Adasum, Average, Sum } from '../tensor/reduce-op.ts';
import { runContexts } from '../testing/run-contexts.ts';
import { adasumReference } from './adasum/reference.ts';
import { allreduce, groupedAllreduce, join } from './collectives.ts';
import { prepareAllreduce } from './prepared.ts';

const vectorOf = (rank: number, length: number): number[] =>
  Array.from({ length }, (_, i) => Math.fround(Math.sin(1 + rank * 3 + i * 0.7) + 0.1 * rank));

function near(actual: Float32Array, ranks: readonly number[], factor = 1): void {
  const expected = adasumReference(ranks.map((rank) => vectorOf(rank, actual.length)));
  const wrong = Math.hypot(...expected.map((x, i) => factor * x - (actual[i] as number)));
  assert(wrong <= 1e-6 * factor * Math.hypot(...expected), `${wrong}`);
}

const all = (size: number) => Array.from({ length: size }, (_, rank) => rank);

describe('Adasum of contexts', () => {
  for (const size of [1, 2, 4, 8]) {
    test(`${size} ranks: short and long, in place, grouped, prepared, all at once`, async () => {
      await runContexts(size, async (context, rank) => {
        const own = (length: number) => Float32Array.from(vectorOf(rank, length));
        const inPlace = own(9);
        const buffer = own(5);
        const prepared = await prepareAllreduce(context, buffer, { op: Adasum });
        const [short, long, same, group, sum] = await Promise.all([
          allreduce(context, own(3), { op: Adasum, postscaleFactor: 2 }),
          allreduce(context, own(10_001), { op: Adasum, name: 'long' }),
          allreduce(context, inPlace, { op: Adasum, inPlace: true }),
          groupedAllreduce(context, [own(7), own(0), own(6000)], { op: Adasum, prescaleFactor: 0.5 }),
          allreduce(context, Float32Array.of(1), { op: Sum }),
          prepared.run(),
        ]);
        near(short, all(size), 2);
        near(long, all(size));
        assert.equal(same, inPlace);
        for (const result of [same, buffer]) near(result, all(size));
        for (const result of group) near(result, all(size), 0.5);
        assert.deepEqual([...sum], [size]);
      });
    });
  }

  test('of a process set', async () => {
    const members = [0, 2, 3, 4];
    await runContexts(
      5,
      async (context, rank, { sets }) => {
        if (!members.includes(rank)) return;
        const x = Float32Array.from(vectorOf(rank, 8000));
        near(await allreduce(context, x, { op: Adasum, processSet: sets[0] }), members);
      },
      { processSets: [members] },
    );
  });

  test('of a number of ranks that is no power of two is refused on each of them, and they go on', async () => {
    for (const size of [3, 6]) {
      await runContexts(size, async (context) => {
        const error = await errorOf(allreduce(context, Float32Array.of(1), { op: Adasum }));
        assert.equal(error.code, 'ERR_HVD_UNSUPPORTED');
        assert.match(error.message, new RegExp(`a power of two, not ${size}`));
        assert.deepEqual([...(await allreduce(context, Float32Array.of(4), { op: Average }))], [4]);
      });
    }
  });

  test('of whole numbers, also in a group, is refused', async () => {
    await runContexts(2, async (context) => {
      const group = [Float32Array.of(1), Int32Array.of(1)];
      const error = await errorOf(groupedAllreduce(context, group, { op: Adasum }));
      assert.equal(error.code, 'ERR_HVD_INVALID_DTYPE');
      assert.match(error.message, /not int32/);
    });
  });

  test('with another operator or length on another rank is a mismatch on all', async () => {
    await runContexts(2, async (context, rank) => {
      const op = rank === 0 ? Adasum : Sum;
      const wrongOp = await errorOf(allreduce(context, new Float32Array(5), { op, name: 'op' }));
      assert.equal(wrongOp.code, 'ERR_HVD_MISMATCH');
      const wrongLength = await errorOf(
        allreduce(context, new Float32Array(5 + rank), { op: Adasum, name: 'length' }),
      );
      assert.equal(wrongLength.code, 'ERR_HVD_MISMATCH');
    });
  });

  test('while a rank has joined is refused, and the others can still join', async () => {
    await runContexts(4, async (context, rank) => {
      if (rank !== 3) {
        const error = await errorOf(allreduce(context, Float32Array.of(1), { op: Adasum }));
        assert.equal(error.code, 'ERR_HVD_JOIN_UNSUPPORTED');
        assert.match(error.message, /allreduce with Adasum is not supported while a rank has joined/);
      }
      await join(context);
    });
  });

  test('with 16 bits on the wire', async () => {
    await runContexts(4, async (context, rank) => {
      for (const length of [20, 9000]) {
        const x = Float32Array.from(vectorOf(rank, length));
        const result = await allreduce(context, x, { op: Adasum, compression: Compression.fp16 });
        const expected = adasumReference(all(4).map((member) => vectorOf(member, length)));
        const wrong = Math.hypot(...expected.map((value, i) => value - (result[i] as number)));
        assert(wrong < 2e-3 * Math.hypot(...expected), `${wrong}`);
      }
    });
  });
});
