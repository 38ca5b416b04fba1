// horovod/jax in one process: trees, dtypes, ownership, the optimizers' maths and what is rejected. Ranks that meet
// are in src/multiprocess/jax.test.ts.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import * as jax from '@jax-js/jax';
import { errorOf } from '../../../test/support/error-of.ts';
import { defaultContext } from '../../context/default/default-context.ts';
import * as hvd from '../../jax.ts';
import { makeArray, readArray, readArraySync } from './arrays.ts';
import { takeApart } from './trees.ts';

const { numpy: np, tree } = jax;
const hasHalf = 'Float16Array' in globalThis;

describe('arrays and tensors of the core', () => {
  const cases: [name: string, make: () => jax.Array, dtype: string, data: number[]][] = [
    ['float32', () => np.array([1.5, -0, Number.NaN]), 'float32', [1.5, -0, Number.NaN]],
    ['int32', () => np.array(new Int32Array([1, -2])), 'int32', [1, -2]],
    ['bool', () => np.array([true, false, true]), 'bool', [1, 0, 1]],
    ['uint32', () => np.array(new Uint32Array([1, 4e9])), 'int32', [1, 4e9 | 0]],
    ['a constant that has no memory of its own', () => np.full([3], 7), 'float32', [7, 7, 7]],
    [
      'a transposed view',
      () =>
        np
          .array([
            [1, 2, 3],
            [4, 5, 6],
          ])
          .transpose(),
      'float32',
      [1, 4, 2, 5, 3, 6],
    ],
    ['nothing at all', () => np.zeros([0, 2]), 'float32', []],
    ['a float64 scalar', () => np.array([0.1], { dtype: jax.DType.Float64 }), 'float64', [0.1]],
  ];
  for (const [name, make, dtype, data] of cases) {
    test(`${name}: values, shape and dtype survive both ways`, async () => {
      const array = make();
      const { shape } = array;
      const kind = { dtype: array.dtype, device: array.device };
      const tensor = readArraySync(array.ref);
      assert.deepEqual([tensor.dtype, tensor.shape, [...tensor.data]], [dtype, shape, data]);
      assert.deepEqual(await readArray(array), tensor);
      assert.equal(array.refCount, 0);
      const again = makeArray(kind, tensor);
      assert.deepEqual([again.dtype, again.shape, again.refCount], [kind.dtype, shape, 1]);
      assert.deepEqual(readArraySync(again), tensor);
    });
  }

  test('float64 is rejected where jax-js cannot make it, before anything is used up', {
    skip: hasHalf,
  }, () => {
    const x = np.array([1, 2]).astype(jax.DType.Float64);
    assert.throws(
      () => takeApart({ a: [x] }, 'allreduce'),
      /ERR_HVD_INVALID_DTYPE: allreduce: a\[0\] is float64.*astype/,
    );
    assert.equal(x.refCount, 1);
    x.dispose();
  });

  test('float64 and float16 go both ways where there is a Float16Array', { skip: !hasHalf }, () => {
    const wide = np.array(new Float64Array([0.1, 0.2]));
    const half = np.array([0.5, 0.1], { device: 'cpu' }).astype(jax.DType.Float16);
    for (const [array, dtype] of [
      [wide, 'float64'],
      [half, 'float16'],
    ] as const) {
      const kind = { dtype: array.dtype, device: array.device };
      const tensor = readArraySync(array);
      assert.equal(tensor.dtype, dtype);
      assert.deepEqual(readArraySync(makeArray(kind, tensor)), tensor);
    }
  });

  test('the device of an array is kept', () => {
    const array = np.array([1, 2, 3], { device: 'cpu' });
    const kind = { dtype: array.dtype, device: array.device };
    const again = makeArray(kind, readArraySync(array));
    assert.equal(again.device, 'cpu');
    again.dispose();
  });
});

describe('trees', () => {
  const paths = (value: unknown) => takeApart(value, 'test').leaves.map(({ path }) => path);

  test('leaves have paths, sorted by key', () => {
    const x = np.array([1]);
    assert.deepEqual(paths({ b: [x, { c: x }], a: x, nothing: null, missing: undefined, n: 1 }), [
      'a',
      'b[0]',
      'b[1].c',
      'n',
    ]);
    assert.deepEqual(paths(x), ['']);
    assert.deepEqual(paths([]), []);
    x.dispose();
  });

  test('the structure comes back with keys in their order', () => {
    const parts = takeApart({ z: 1, a: [2, { y: 3, x: null }] }, 'test');
    assert.deepEqual(JSON.stringify(parts.rebuild(parts.readSync())), '{"z":1,"a":[2,{"y":3,"x":null}]}');
  });

  test('what is no leaf is named with its path', () => {
    assert.throws(
      () => paths({ a: { b: true } }),
      /ERR_HVD_INVALID_ARGUMENT: test: a\.b is true; a tree has/,
    );
    assert.throws(() => paths([new Map()]), /test: \[0\] is an object of Map/);
  });

  test('inside jit() and grad() there are no values to send', () => {
    const traced = /a has no value yet: it is traced.*outside/;
    const send = (x: jax.Array) => (hvd.allreduceSync({ a: x }) as { a: jax.Array }).a;
    assert.throws(() => jax.jit(send)(np.array([1, 2])), traced);
    assert.throws(() => jax.grad(send)(np.array(1)), traced);
  });
});

describe('optimizers', () => {
  const minimize = (optimizer: hvd.GradientTransformation<jax.Array, unknown>, steps: number) => {
    let params = np.array([1, -2]);
    let state = optimizer.init(params.ref);
    for (let i = 0; i < steps; i++) {
      const grads = params.ref.mul(2);
      const [updates, next] = optimizer.update(grads, state, params.ref);
      [params, state] = [hvd.applyUpdates(params, updates), next];
    }
    tree.dispose(state as jax.JsTree<jax.Array>);
    assert.equal(params.refCount, 1);
    return [...params.dataSync()];
  };
  const close = (values: number[], wanted: number[], tolerance = 1e-6) => {
    for (const [i, value] of values.entries()) {
      assert.ok(Math.abs(value - (wanted[i] as number)) < tolerance, `${values} for ${wanted}`);
    }
  };

  test('sgd follows the gradient', () => {
    close(minimize(hvd.sgd(0.1), 3), [0.8 ** 3, -2 * 0.8 ** 3]);
  });

  test('momentum adds up velocities', () => {
    let [w, v] = [1, 0];
    for (let i = 0; i < 4; i++) {
      v = 0.9 * v + 2 * w;
      w -= 0.1 * v;
    }
    close(minimize(hvd.sgd(0.1, { momentum: 0.9 }), 4), [w, -2 * w]);
  });

  test('adam is that of the paper, also when jitted', () => {
    const expected = [1, -2].map((start) => {
      let [w, m, s] = [start, 0, 0];
      for (let t = 1; t <= 5; t++) {
        m = 0.9 * m + 0.1 * 2 * w;
        s = 0.999 * s + 0.001 * (2 * w) ** 2;
        w -= (0.01 * (m / (1 - 0.9 ** t))) / (Math.sqrt(s / (1 - 0.999 ** t)) + 1e-8);
      }
      return w;
    });
    // Bias correction divides by small differences of float32: five digits are what is left.
    const near = (values: number[]) => close(values, expected, 1e-5);
    const adam = hvd.adam<jax.Array>(0.01);
    near(minimize(adam as hvd.GradientTransformation<jax.Array, unknown>, 5));
    const update = jax.jit(adam.update);
    near(minimize({ init: adam.init, update } as hvd.GradientTransformation<jax.Array, unknown>, 5));
    update.dispose();
  });
});

describe('DistributedOptimizer', () => {
  before(() => hvd.init());
  after(() => hvd.shutdown());
  const rejections: [name: string, make: () => unknown, words: RegExp][] = [
    ['no optimizer', () => hvd.DistributedOptimizer({} as never), /expected an optimizer \{ init/],
    ['nothing', () => hvd.DistributedOptimizer(undefined as never), /not undefined/],
    [
      'one that is distributed already',
      () => hvd.DistributedOptimizer(hvd.DistributedOptimizer(hvd.sgd(1))),
      /reduced twice/,
    ],
    [
      'no passes',
      () => hvd.DistributedOptimizer(hvd.sgd(1), { backwardPassesPerStep: 0 }),
      /whole number above 0, not 0/,
    ],
    [
      'a factor of 0',
      () => hvd.DistributedOptimizer(hvd.sgd(1), { gradientPredivideFactor: 0 }),
      /above 0, not 0/,
    ],
    [
      'a factor for sums',
      () => hvd.DistributedOptimizer(hvd.sgd(1), { op: hvd.Sum, gradientPredivideFactor: 2 }),
      /Average only, not with Sum/,
    ],
    [
      'the same for gradients alone',
      () => hvd.valueAndGrad((x: jax.Array) => x, { op: hvd.Sum, gradientPredivideFactor: 2 }),
      /Average only, not with Sum/,
    ],
    [
      'an option that does not exist',
      () => hvd.DistributedOptimizer(hvd.sgd(1), { opp: hvd.Sum } as never),
      /no option opp; there are op, /,
    ],
    [
      'the same for gradients alone',
      () => hvd.valueAndGrad((x: jax.Array) => x, { hasaux: true } as never),
      /no option hasaux/,
    ],
    ['null', () => hvd.DistributedOptimizer(hvd.sgd(1), null as never), /options are an object, not null/],
    [
      'the largest gradient',
      () => hvd.DistributedOptimizer(hvd.sgd(1), { op: hvd.Max }),
      /op is Average, Sum or Adasum/,
    ],
    [
      'an unknown name of a compression',
      () => hvd.DistributedOptimizer(hvd.sgd(1), { compression: 'zip' as never }),
      /there is no compression "zip"; there are 'none', 'fp16'/,
    ],
    [
      'a list for a process set',
      () => hvd.DistributedOptimizer(hvd.sgd(1), { processSet: [0, 1] as never }),
      /processSet is a ProcessSet/,
    ],
    [
      'averages for Adasum',
      () => hvd.DistributedOptimizer(hvd.sgd(1), { op: hvd.Adasum, averageAggregatedGradients: true }),
      /Adasum/,
    ],
    [
      'shards for Adasum',
      () => hvd.DistributedOptimizer(hvd.sgd(1), { op: hvd.Adasum, shardOptimizerState: true }),
      /Average and Sum, not with Adasum/,
    ],
    [
      'a number of shards',
      () => hvd.DistributedOptimizer(hvd.sgd(1), { shardOptimizerState: 2 as never }),
      /true or false/,
    ],
  ];
  for (const [name, make, words] of rejections) {
    test(`rejects ${name}`, async () => {
      const error = await errorOf((async () => make())());
      assert.equal(error.code, 'ERR_HVD_INVALID_ARGUMENT');
      assert.match(error.message, words);
    });
  }

  test('has the state of the optimizer inside, so that either can go on with it', () => {
    const plain = hvd.adam<jax.Array>(0.1);
    const state = hvd.DistributedOptimizer(plain).init(np.array([1, 2]));
    assert.deepEqual(Object.keys(state), ['decay1', 'decay2', 'mean', 'square']);
    const [updates, next] = plain.update(np.array([1, 1]), state, undefined);
    tree.dispose([updates, next]);
  });

  test('between two steps it hands out zeros and keeps the sum', async () => {
    const optimizer = hvd.DistributedOptimizer(hvd.sgd<jax.Array>(1), { backwardPassesPerStep: 3 });
    let state = optimizer.init(np.array([0, 0]));
    const seen: unknown[] = [];
    for (let pass = 1; pass <= 6; pass++) {
      const update = pass % 2 === 0 ? optimizer.update : optimizer.updateAsync;
      const [updates, next] = await update(np.array([pass, 1]), state, np.array([9, 9]));
      seen.push(updates.js());
      state = next;
    }
    assert.deepEqual(seen, [
      [0, 0],
      [0, 0],
      [-6, -3],
      [0, 0],
      [0, 0],
      [-15, -3],
    ]);
    assert.equal(state.passes, 0);
    tree.dispose(state.sum);
  });

  test('each step is one mark on the step clock; passes that are only summed up are none', async () => {
    const { steps } = defaultContext();
    const marksOf = async (run: () => unknown) => {
      const before = steps.step;
      await run();
      return steps.step - before;
    };
    const train = async (options: hvd.DistributedOptimizerOptions) => {
      const optimizer = hvd.DistributedOptimizer(hvd.sgd<jax.Array>(1), options);
      let state = optimizer.init(np.array([0, 0]));
      for (const update of [optimizer.update, optimizer.updateAsync]) {
        const [updates, next] = await update(np.array([1, 1]), state);
        updates.dispose();
        state = next;
      }
    };
    assert.equal(await marksOf(() => train({})), 2);
    assert.equal(await marksOf(() => train({ shardOptimizerState: true })), 2);
    assert.equal(await marksOf(() => train({ backwardPassesPerStep: 2 })), 1);
    const square = (x: jax.Array) => np.sum(np.square(x));
    assert.equal(await marksOf(() => hvd.valueAndGrad(square)(np.array([1, 2]))), 1);
    assert.equal(await marksOf(() => hvd.valueAndGradSync(square)(np.array([1, 2]))), 1);
  });
});

test('setDevice makes a device the default, and says which there are not', async () => {
  assert.equal(await hvd.setDevice('cpu'), 'cpu');
  assert.equal(jax.defaultDevice(), 'cpu');
  assert.equal(await hvd.setDevice(), 'wasm');
  await assert.rejects(hvd.setDevice('webgpu'), /no device "webgpu" here/);
  await assert.rejects(
    hvd.setDevice('webgl'),
    /ERR_HVD_INVALID_ARGUMENT: setDevice: jax-js has no device "webgl" here/,
  );
});

test('data is divided by the functions of the core', () => {
  const places = hvd.shuffledIndices(10, { seed: 1 });
  assert.deepEqual(
    [...hvd.shardIndices(places, { count: 2, index: 0 })],
    [...places].filter((_, i) => i % 2 === 0),
  );
  assert.deepEqual(hvd.shard(['a', 'b', 'c', 'd'], { count: 2, index: 1 }), ['b', 'd']);
  assert.throws(() => hvd.shard('abc' as never, { count: 2, index: 1 }), {
    code: 'ERR_HVD_INVALID_ARGUMENT',
  });
});
