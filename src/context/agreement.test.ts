import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { errorOf } from '../../test/support/error-of.ts';
import * as hvd from '../operations/collectives.ts';
import { prepareAllreduce } from '../operations/prepared.ts';
import { Compression } from '../tensor/compression/compression.ts';
import type { TypedArray } from '../tensor/dtype.ts';
import { Average, Max, Sum } from '../tensor/reduce-op.ts';
import { tensor } from '../tensor/tensor.ts';
import { runContexts } from '../testing/run-contexts.ts';
import type { HorovodContext } from './context.ts';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await turn();
};
const of = (...values: number[]) => Float32Array.from(values);

/** An allreduce that works shows that the context does. */
async function stillWorks(context: HorovodContext): Promise<void> {
  const { rank, size } = context.world;
  const sum = await hvd.allreduce(context, of(rank + 1), { op: Sum, name: 'still works' });
  assert.deepEqual(sum, of((size * (size + 1)) / 2));
}

describe('ranks that do the same in another order', () => {
  test('the order of names inside a tick does not matter', async () => {
    await runContexts(3, async (context, rank) => {
      const names = ['a', 'b', 'c', 'd'];
      const order = rank === 0 ? names : rank === 1 ? [...names].reverse() : ['c', 'a', 'd', 'b'];
      const sums = await Promise.all(
        order.map(async (name) => {
          const x = of(names.indexOf(name) * 10 + rank);
          return [name, (await hvd.allreduce(context, x, { name, op: Sum }))[0]] as const;
        }),
      );
      assert.deepEqual(Object.fromEntries(sums), { a: 3, b: 33, c: 63, d: 93 });
    });
  });

  test('one rank asks in one tick, another one by one over many', async () => {
    await runContexts(2, async (context, rank) => {
      const names = Array.from({ length: 20 }, (_, i) => `n${i}`);
      const order = rank === 0 ? names : [...names].reverse();
      const sums: Promise<Float32Array>[] = [];
      for (const name of order) {
        sums.push(hvd.allreduce(context, of(rank + 1), { name, op: Sum }));
        if (rank === 1) await turns(2);
      }
      for (const sum of await Promise.all(sums)) assert.deepEqual(sum, of(3));
      await stillWorks(context);
    });
  });

  test('three ranks with names in random order and random ticks all get every result', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      await runContexts(3, async (context, rank) => {
        const next = generator(seed * 31 + rank);
        const names = shuffled(
          Array.from({ length: 15 }, (_, i) => `n${i}`),
          next,
        );
        const sums: Promise<void>[] = [];
        for (const name of names) {
          const place = Number(name.slice(1));
          sums.push(
            hvd
              .allreduce(context, of(place, rank), { name, op: Sum })
              .then((sum) => assert.deepEqual(sum, of(3 * place, 3))),
          );
          if (next() < 0.5) await turns(Math.floor(next() * 4));
        }
        await Promise.all(sums);
        await stillWorks(context);
      });
    }
  });

  test('different kinds of one tick travel together', async () => {
    await runContexts(2, async (context, rank) => {
      const [sum, gathered, root, objects] = await Promise.all([
        hvd.allreduce(context, of(rank), { op: Sum }),
        hvd.allgather(context, Int32Array.of(rank)),
        hvd.broadcast(context, of(rank + 5), 1),
        hvd.allgatherObject(context, { rank }),
        hvd.barrier(context),
      ]);
      assert.deepEqual(sum, of(1));
      assert.deepEqual(gathered, Int32Array.of(0, 1));
      assert.deepEqual(root, of(6));
      assert.deepEqual(objects, [{ rank: 0 }, { rank: 1 }]);
    });
  });

  test('unnamed operations are matched by their order, across kinds', async () => {
    await runContexts(2, async (context, rank) => {
      const first = hvd.allreduce(context, of(1), { op: Sum });
      if (rank === 0) await turns(3);
      const second = hvd.allgather(context, of(rank));
      assert.deepEqual(await first, of(2));
      assert.deepEqual(await second, of(0, 1));
    });
  });

  test('a tiny fusion threshold and a coalescing window change nothing', async () => {
    const limits = { fusionThresholdBytes: 8, cycleTimeMs: 2 };
    await runContexts(
      2,
      async (context, rank) => {
        const inputs = Array.from({ length: 30 }, (_, i) => of(i, i + rank, -i));
        const sums = await Promise.all(inputs.map((x) => hvd.allreduce(context, x, { op: Sum })));
        sums.forEach((sum, i) => {
          assert.deepEqual(sum, of(2 * i, 2 * i + 1, -2 * i));
        });
      },
      { limits },
    );
  });
});

describe('ranks that ask for different things under one name', () => {
  const cases: {
    what: string;
    ask: (context: HorovodContext, rank: number) => Promise<unknown>;
    words: RegExp;
  }[] = [
    {
      what: 'data types',
      ask: (context, rank) =>
        hvd.allreduce(context, (rank === 1 ? new Int32Array(2) : of(1, 2)) as TypedArray, { name: 'x' }),
      words: /"x": mismatched data types: rank 0 has float32, but rank 1 has int32/,
    },
    {
      what: 'shapes of the same number of elements',
      ask: (context, rank) =>
        hvd.allreduce(context, tensor(new Float32Array(6), rank === 1 ? [3, 2] : [2, 3]), { name: 'x' }),
      words:
        /"x": mismatched ALLREDUCE tensor shapes: rank 0 has shape \[2, 3\], but rank 1 has shape \[3, 2\]/,
    },
    {
      what: 'operators',
      ask: (context, rank) => hvd.allreduce(context, of(1), { name: 'x', op: rank === 1 ? Max : Average }),
      words: /"x": mismatched reduction operations: rank 0 has Average, but rank 1 has Max/,
    },
    {
      what: 'factors',
      ask: (context, rank) => hvd.allreduce(context, of(1), { name: 'x', prescaleFactor: rank + 1 }),
      words: /factors: rank 0 has \(1, 1\), but rank 1 has \(2, 1\)/,
    },
    {
      what: 'roots',
      ask: (context, rank) => hvd.broadcast(context, of(1), rank % 2, { name: 'x' }),
      words: /"x": mismatched root ranks: rank 0 has root 0, but rank 1 has root 1/,
    },
    {
      what: 'kinds',
      ask: (context, rank) =>
        rank === 0
          ? hvd.allreduce(context, of(1), { name: 'x' })
          : hvd.allgather(context, of(1), { name: 'x' }),
      words: /mismatched operations: rank 0 has ALLREDUCE, but rank 1 has ALLGATHER/,
    },
    {
      what: 'sizes of a group',
      ask: (context, rank) =>
        hvd.groupedAllreduce(context, rank === 1 ? [of(1)] : [of(1), of(2)], { name: 'x' }),
      words: /mismatched group sizes: rank 0 has a group of 2, but rank 1 has a group of 1/,
    },
    {
      what: 'a group and a single tensor',
      ask: (context, rank) =>
        rank === 1
          ? hvd.groupedAllreduce(context, [of(1)], { name: 'x' })
          : hvd.allreduce(context, of(1), { name: 'x' }),
      words: /mismatched group sizes: rank 0 has a single tensor, but rank 1 has a group of 1/,
    },
    {
      what: 'compression',
      ask: (context, rank) =>
        hvd.allreduce(context, Int32Array.of(1), {
          name: 'x',
          compression: rank === 1 ? Compression.fp16 : Compression.none,
        }),
      words: /mismatched options: rank 0 has none, but rank 1 has fp16/,
    },
    {
      what: 'all but the first dimension of an allgather',
      ask: (context, rank) =>
        hvd.allgather(context, tensor(new Float32Array(6), rank === 1 ? [3, 2] : [2, 3]), { name: 'x' }),
      words: /mismatched ALLGATHER tensor shapes: rank 0 has shape \[2, 3\], but rank 1 has shape \[3, 2\]/,
    },
    {
      what: 'the number of dimensions of an alltoall',
      ask: (context, rank) =>
        hvd.alltoall(context, tensor(new Float32Array(6), rank === 1 ? [6] : [6, 1]), { name: 'x' }),
      words: /mismatched ALLTOALL tensor shapes: rank 0 has shape \[6, 1\], but rank 1 has shape \[6\]/,
    },
    {
      what: 'the shape of a prepared allreduce',
      ask: (context, rank) => prepareAllreduce(context, new Float32Array(rank + 1), { name: 'x' }),
      words: /mismatched PREPAREALLREDUCE tensor shapes: rank 0 has shape \[1\], but rank 1 has shape \[2\]/,
    },
    {
      what: 'what an unnamed operation is',
      ask: (context, rank) => hvd.allreduce(context, new Float32Array(rank + 1)),
      words: /allreduce \(unnamed, number \d+\): mismatched ALLREDUCE tensor shapes/,
    },
  ];
  for (const { what, ask, words } of cases) {
    test(`${what}: the same error everywhere, and the context goes on`, async () => {
      const messages = await runContexts(3, async (context, rank) => {
        const error = await errorOf(ask(context, rank));
        assert.equal(error.code, 'ERR_HVD_MISMATCH');
        assert.match(error.message, words);
        await stillWorks(context);
        return error.message;
      });
      assert.equal(new Set(messages).size, 1);
    });
  }

  test('only the operation concerned fails; others of the same tick run', async () => {
    await runContexts(2, async (context, rank) => {
      const wrong = hvd.allreduce(context, new Float32Array(rank + 1), { name: 'wrong' });
      const right = hvd.allreduce(context, of(rank), { name: 'right', op: Sum });
      assert.equal((await errorOf(wrong)).tensor, 'wrong');
      assert.deepEqual(await right, of(1));
    });
  });

  test('no byte of the tensors is touched', async () => {
    await runContexts(2, async (context, rank) => {
      const x = new Float32Array(rank + 1).fill(7);
      await errorOf(hvd.allreduce(context, x, { name: 'x', inPlace: true }));
      assert.ok(x.every((value) => value === 7));
    });
  });

  test('first dimensions of allgather and alltoall may differ', async () => {
    await runContexts(2, async (context, rank) => {
      const x = tensor(new Float32Array(2 * (rank + 1)).fill(rank), [rank + 1, 2]);
      const { data, shape } = await hvd.allgather(context, x, { name: 'x' });
      assert.deepEqual([...data], [0, 0, 1, 1, 1, 1]);
      assert.deepEqual(shape, [3, 2]);
    });
  });
});

describe('names in flight', () => {
  test('a second operation of the same name is refused at once, and the first one lives', async () => {
    await runContexts(2, async (context, rank) => {
      const first = hvd.allreduce(context, of(rank), { name: 'x', op: Sum });
      const seconds = [
        hvd.allreduce(context, of(9), { name: 'x' }),
        hvd.allgather(context, of(9), { name: 'x' }),
        hvd.broadcast(context, of(9), 0, { name: 'x' }),
        hvd.reducescatter(context, of(9), { name: 'x' }),
      ];
      for (const error of await Promise.all(seconds.map(errorOf))) {
        assert.equal(error.code, 'ERR_HVD_DUPLICATE_NAME');
        assert.equal(error.tensor, 'x');
        assert.match(error.message, /same name as an operation that is still in flight/);
      }
      assert.deepEqual(await first, of(1));
      assert.deepEqual(await hvd.allreduce(context, of(rank), { name: 'x', op: Sum }), of(1));
    });
  });

  test('the same name may be in flight in two process sets', async () => {
    await runContexts(
      2,
      async (context, rank, { sets: [pair] }) => {
        const inAll = hvd.allreduce(context, of(rank), { name: 'x', op: Sum });
        if (rank === 0) {
          const alone = hvd.allreduce(context, of(5), { name: 'x', op: Sum, processSet: pair });
          assert.deepEqual(await alone, of(5));
        }
        assert.deepEqual(await inAll, of(1));
      },
      { processSets: [[0]] },
    );
  });
});

function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function shuffled<T>(list: readonly T[], next: () => number): T[] {
  return list
    .map((value) => ({ value, at: next() }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
