import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { shuffledIndices } from '../../../data/shuffled-indices.ts';
import type { Uneven } from '../../../data/uneven.ts';
import { shardIndices } from '../../data/shard-list.ts';
import { stepsPerEpoch, validationSteps } from '../../data/steps.ts';
import { shard, shardTensors } from './shard.ts';

before(() => tf.setBackend('cpu'));

const range = (length: number) => Array.from({ length }, (_, place) => place);
const lengths = [0, 1, 2, 3, 4, 7, 8, 9, 24, 25];
const counts = [1, 2, 3, 4, 5];

/** What each of `count` ranks gets. */
function shardsOf<T>(count: number, of: (index: number) => T): T[] {
  return range(count).map((index) => of(index));
}

describe('shards of indices', () => {
  const all = (uneven: Uneven, check: (length: number, count: number, shards: number[][]) => void) => {
    for (const length of lengths) {
      for (const count of counts) {
        check(
          length,
          count,
          shardsOf(count, (index) => [...shardIndices(length, { count, index, uneven })]),
        );
      }
    }
  };

  test("'keep': every sample exactly once; no rank has more than one more than another", () => {
    all('keep', (length, _count, shards) => {
      assert.deepEqual(
        shards.flat().sort((a, b) => a - b),
        range(length),
      );
      const sizes = shards.map((part) => part.length);
      assert.ok(Math.max(...sizes) - Math.min(...sizes) <= 1);
    });
  });

  test("'pad': every sample at least once, every rank equally many, as few twice as possible", () => {
    all('pad', (length, count, shards) => {
      assert.deepEqual(
        [...new Set(shards.flat())].sort((a, b) => a - b),
        range(length),
      );
      for (const part of shards) assert.equal(part.length, Math.ceil(length / count));
    });
  });

  test("'drop': no sample twice, every rank equally many, as few left out as possible", () => {
    all('drop', (length, count, shards) => {
      const used = shards.flat();
      assert.equal(new Set(used).size, used.length);
      for (const part of shards) assert.equal(part.length, Math.floor(length / count));
    });
  });

  test('an order given is dealt in its order', () => {
    assert.deepEqual([...shardIndices([5, 3, 4, 1, 2], { count: 2, index: 0 })], [5, 4, 2]);
    assert.deepEqual([...shardIndices([5, 3, 4, 1, 2], { count: 2, index: 1 })], [3, 1, 5]);
  });
});

describe('shards of lists', () => {
  test('lists and typed arrays keep their kind', () => {
    assert.deepEqual(shard(['a', 'b', 'c'], { count: 2, index: 1 }), ['b', 'a']);
    assert.deepEqual(shard(Float32Array.of(1, 2, 3), { count: 2, index: 0 }), Float32Array.of(1, 3));
    assert.deepEqual(shard(Uint8Array.of(7), { count: 3, index: 2 }), Uint8Array.of(7));
  });

  test('wrong arguments are rejected', () => {
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    assert.throws(() => shard([1], { count: 0, index: 0 }), { code, message: /count/ });
    assert.throws(() => shard([1], { count: 2, index: 2 }), { code, message: /index is from 0 to 1/ });
    assert.throws(() => shard([1], { count: 2, index: 0, uneven: 'wrap' as never }), {
      code,
      message: /uneven/,
    });
    assert.throws(() => shard('text' as never, { count: 1, index: 0 }), { code });
    assert.throws(() => shard([1], { counts: 2 } as never), { code, message: /no option counts/ });
    assert.throws(() => shard([1], null as never), { code, message: /options are an object, not null/ });
    for (const order of [-1, 2.5, Number.NaN, undefined, 'ab', ['a'], [0.5], [-1]]) {
      assert.throws(() => shardIndices(order as never, { count: 1, index: 0 }), { code });
    }
    assert.throws(() => shard(tf.ones([2]) as never, { count: 1, index: 0 }), {
      code,
      message: /shardTensors/,
    });
  });
});

describe('shards of datasets', () => {
  const numbersOf = async (dataset: tf.data.Dataset<tf.TensorContainer>) => {
    const numbers: number[] = [];
    await dataset.forEachAsync((element) => {
      const tensor = (element as { xs: tf.Tensor }).xs;
      numbers.push(tensor.dataSync()[0] as number);
      tf.dispose(element);
    });
    return numbers;
  };
  const datasetOf = (length: number) =>
    tf.data.generator(function* () {
      for (let place = 0; place < length; place += 1) yield { xs: tf.scalar(place), ys: tf.scalar(-place) };
    } as never) as tf.data.Dataset<tf.TensorContainer>;

  for (const uneven of ['pad', 'drop', 'keep'] as const) {
    test(`'${uneven}': a dataset is dealt as indices are, and leaves no tensors behind`, async () => {
      const tensors = tf.memory().numTensors;
      for (const length of [0, 1, 2, 5, 6, 7]) {
        for (const count of [1, 2, 3, 4]) {
          for (const index of range(count)) {
            const options = { count, index, uneven };
            assert.deepEqual(await numbersOf(shard(datasetOf(length), options)), [
              ...shardIndices(length, options),
            ]);
          }
        }
      }
      assert.equal(tf.memory().numTensors, tensors);
    });
  }

  test('shuffled with a common seed, then sharded: each sample once per epoch, another order in the next', async () => {
    const make = () =>
      (tf.data.array(range(30)).shuffle(30, 'seed') as tf.data.Dataset<tf.TensorContainer>).map((value) => ({
        xs: tf.scalar(value as unknown as number),
      }));
    const parts = [0, 1, 2].map((index) => shard(make(), { count: 3, index }));
    const epochs = [];
    for (let epoch = 0; epoch < 2; epoch += 1) {
      const dealt = [];
      for (const part of parts) dealt.push(await numbersOf(part));
      assert.deepEqual(
        dealt.flat().sort((a, b) => a - b),
        range(30),
      );
      epochs.push(dealt);
    }
    assert.notDeepEqual(epochs[0], epochs[1]);
  });

  test('the size is known where it was, so that fitDataset() knows its steps', () => {
    const known = tf.data.array(range(10)) as tf.data.Dataset<tf.TensorContainer>;
    assert.equal(shard(known, { count: 4, index: 3 }).size, 3);
    assert.equal(shard(known, { count: 4, index: 3, uneven: 'drop' }).size, 2);
    assert.equal(shard(known.repeat(), { count: 4, index: 3 }).size, Number.POSITIVE_INFINITY);
    assert.equal(shard(datasetOf(3), { count: 2, index: 0 }).size, datasetOf(3).size);
  });

  test('a sharded dataset can be repeated and batched, and stopped in the middle', async () => {
    const tensors = tf.memory().numTensors;
    const part = shard(datasetOf(5), { count: 2, index: 1, uneven: 'drop' }).repeat().take(5);
    assert.deepEqual(await numbersOf(part), [1, 3, 1, 3, 1]);
    assert.equal(tf.memory().numTensors, tensors);
  });

  test('an endless dataset that is sharded leaves nothing behind where it is stopped', async () => {
    const endless = (tf.data.array(range(5)) as tf.data.Dataset<tf.TensorContainer>).repeat();
    const tensors = tf.memory().numTensors;
    const samples = endless.map((value) => ({ xs: tf.scalar(value as unknown as number) }));
    assert.deepEqual(await numbersOf(shard(samples, { count: 3, index: 2 }).take(3)), [2, 0, 3]);
    assert.equal(tf.memory().numTensors, tensors);
  });
});

describe('shards of tensors', () => {
  test('a tensor, a list or a record: the same samples of each', () => {
    const [x, y] = [
      tf.tensor2d([
        [0, 0],
        [1, 1],
        [2, 2],
      ]),
      tf.tensor1d([0, 10, 20], 'int32'),
    ];
    const options = { count: 2, index: 1 };
    assert.deepEqual(shardTensors(x, options).arraySync(), [
      [1, 1],
      [0, 0],
    ]);
    const [xs, ys] = shardTensors([x, y], options) as tf.Tensor[];
    assert.deepEqual([xs?.shape, ys?.arraySync(), ys?.dtype], [[2, 2], [10, 0], 'int32']);
    const record = shardTensors({ x, y }, { ...options, order: [2, 1, 0] });
    assert.deepEqual(
      [record.x.arraySync(), record.y.arraySync()],
      [
        [
          [1, 1],
          [2, 2],
        ],
        [10, 20],
      ],
    );
  });

  test('only what is returned is made', () => {
    const x = tf.ones([5, 2]);
    const before = tf.memory().numTensors;
    shardTensors(x, { count: 2, index: 0 }).dispose();
    assert.equal(tf.memory().numTensors, before);
  });

  test('tensors of different lengths and what is no tensor are rejected', () => {
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    const options = { count: 2, index: 0 };
    assert.throws(() => shardTensors([tf.ones([3]), tf.ones([4])], options), {
      code,
      message: /shape \[4\]/,
    });
    assert.throws(() => shardTensors([1 as never], options), { code });
    assert.throws(() => shardTensors(null as never, options), { code, message: /not null/ });
    assert.throws(() => shardTensors([], options), { code });
    for (const order of [[0, 3], [Number.NaN], 'abc']) {
      assert.throws(() => shardTensors(tf.ones([3]), { ...options, order: order as never }), { code });
    }
    assert.throws(() => shardTensors(tf.scalar(1), options), { code });
  });
});

describe('shuffledIndices()', () => {
  test('is a permutation, the same for the same seed and epoch, another for another', () => {
    const order = shuffledIndices(1000, { seed: 7, epoch: 3 });
    assert.deepEqual(
      [...order].sort((a, b) => a - b),
      range(1000),
    );
    assert.deepEqual(shuffledIndices(1000, { seed: 7, epoch: 3 }), order);
    assert.notDeepEqual(shuffledIndices(1000, { seed: 7, epoch: 4 }), order);
    assert.notDeepEqual(shuffledIndices(1000, { seed: 8, epoch: 3 }), order);
    assert.notDeepEqual(shuffledIndices(1000, { seed: 8, epoch: 2 }), order);
    assert.equal(shuffledIndices(0).length, 0);
    assert.deepEqual([...shuffledIndices(1)], [0]);
  });

  test('every order of four is about as frequent as every other', () => {
    const found = new Map<string, number>();
    for (let epoch = 0; epoch < 2400; epoch += 1) {
      const order = shuffledIndices(4, { seed: 1, epoch }).join();
      found.set(order, (found.get(order) ?? 0) + 1);
    }
    assert.equal(found.size, 24);
    // 100 expected each, standard deviation 10; the seed is fixed, so this cannot fail by chance.
    for (const count of found.values()) assert.ok(count > 60 && count < 140, String(count));
  });

  test('wrong arguments are rejected', () => {
    assert.throws(() => shuffledIndices(-1), { code: 'ERR_HVD_INVALID_ARGUMENT' });
    assert.throws(() => shuffledIndices(3, { seed: 0.5 }), { code: 'ERR_HVD_INVALID_ARGUMENT' });
    assert.throws(() => shuffledIndices(3, { sead: 1 } as never), { message: /no option sead/ });
  });
});

describe('steps', () => {
  test('stepsPerEpoch(): full batches that every rank has', () => {
    assert.equal(stepsPerEpoch(60_000, 128, 1), 468);
    assert.equal(stepsPerEpoch(60_000, 128, 4), 117);
    assert.equal(stepsPerEpoch(10, 32, 4), 1);
    for (const samples of [64, 65, 100, 127, 128, 1000]) {
      for (const ranks of counts) {
        const smallest = Math.min(
          ...shardsOf(
            ranks,
            (index) => shardIndices(samples, { count: ranks, index, uneven: 'drop' }).length,
          ),
        );
        assert.equal(stepsPerEpoch(samples, 8, ranks), Math.max(1, Math.floor(smallest / 8)));
      }
    }
  });

  test('validationSteps(): three times the steps of one rank, divided among the ranks', () => {
    assert.equal(validationSteps(10_000, 100, 4), 75);
    assert.equal(validationSteps(10_001, 100, 4), 75);
    assert.equal(validationSteps(100, 100, 8), 1);
  });

  test('wrong arguments are rejected', () => {
    assert.throws(() => stepsPerEpoch(0, 1, 1), { code: 'ERR_HVD_INVALID_ARGUMENT', message: /samples/ });
    assert.throws(() => validationSteps(1, 1.5, 1), {
      code: 'ERR_HVD_INVALID_ARGUMENT',
      message: /batchSize/,
    });
  });
});
