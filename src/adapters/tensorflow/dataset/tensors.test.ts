import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { arrayDataset, rangeDataset } from '../../../data/sources.ts';
import { setBackend } from '../backend/set-backend.ts';
import { tensors } from './tensors.ts';

const samples = 40;
const xs = Float32Array.from({ length: samples * 3 }, (_, place) => Math.sin(place));
const ys = Float32Array.from({ length: samples }, (_, row) => xs[row * 3] as number);
const data = () =>
  arrayDataset({
    xs: { data: xs, shape: [samples, 3], dtype: 'float32' },
    ys: { data: ys, shape: [samples, 1], dtype: 'float32' },
  });

for (const backend of ['cpu', 'wasm'] as const)
  describe(`tensors() on ${backend}`, () => {
    before(() => setBackend(backend));

    test('feeds fitDataset() for several epochs, and leaks no tensor', async () => {
      const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [3] })] });
      model.compile({ optimizer: tf.train.sgd(0.1), loss: 'meanSquaredError' });
      const dataset = data().shuffle(samples, { seed: 1 }).batch(8);
      assert.equal(tensors(dataset).size, 5);
      await model.fitDataset(tensors(dataset) as never, { epochs: 1, verbose: 0 });
      const tensorsBefore = tf.memory().numTensors;
      const history = await model.fitDataset(tensors(dataset) as never, { epochs: 3, verbose: 0 });
      assert.equal(tf.memory().numTensors, tensorsBefore);
      const losses = history.history['loss'] as number[];
      assert.equal(losses.length, 3);
      assert.ok((losses[2] as number) < (losses[0] as number));
      assert.equal((await dataset.state()).epoch, 4);
      model.dispose();
    });

    test('gives tensors of the dtypes that TensorFlow.js has', async () => {
      const kinds = arrayDataset({
        bytes: Uint8Array.of(1, 255),
        wide: BigInt64Array.of(-5n, 7n),
        double: Float64Array.of(0.5, 2),
        half: { data: Uint16Array.of(0x3c00, 0xc000), shape: [2], dtype: 'float16' },
        flag: { data: Uint8Array.of(1, 0), shape: [2], dtype: 'bool' },
      }).batch(2);
      const before = tf.memory().numTensors;
      await tensors(kinds).forEachAsync((batch) => {
        const found = Object.entries(batch as Record<string, tf.Tensor>).map(([name, tensor]) => [
          name,
          tensor.dtype,
          [...tensor.dataSync()],
        ]);
        assert.deepEqual(found, [
          ['bytes', 'int32', [1, 255]],
          ['wide', 'int32', [-5, 7]],
          ['double', 'float32', [0.5, 2]],
          ['half', 'float32', [1, -2]],
          ['flag', 'bool', [1, 0]],
        ]);
        tf.dispose(batch);
      });
      const texts = rangeDataset(0, 2).map((each) => ({ text: `t${each}` }));
      await tensors(texts.batch(2)).forEachAsync(({ text }) => {
        assert.deepEqual((text as tf.Tensor).dataSync(), ['t0', 't1']);
        tf.dispose(text);
      });
      const large = arrayDataset({ small: Int32Array.of(1), large: BigInt64Array.of(2n ** 40n) }).batch(1);
      await assert.rejects(
        tensors(large).forEachAsync(() => {}),
        { code: 'ERR_HVD_INVALID_DTYPE', message: /"large"/ },
      );
      assert.equal(tf.memory().numTensors, before);
      assert.throws(() => tensors([] as never), { code: 'ERR_HVD_INVALID_ARGUMENT' });
    });

    test('tensors that are kept stay as they are when later batches come', async () => {
      const rows = 64;
      const values = {
        a: Float32Array.from({ length: rows }, (_, row) => row),
        b: Uint8Array.from({ length: rows }, (_, row) => row),
      };
      const kept: tf.Tensor[][] = [];
      const iterator = await tensors(arrayDataset(values).batch(4)).iterator();
      for (let batch = 0; batch < rows / 4; batch += 1) {
        const { a, b } = (await iterator.next()).value;
        kept.push([a, b]);
      }
      const all = kept.map(([a, b]) => [[...(a as tf.Tensor).dataSync()], [...(b as tf.Tensor).dataSync()]]);
      const expected = kept.map((_, at) => [0, 1, 2, 3].map((row) => at * 4 + row));
      assert.deepEqual(
        all,
        expected.map((each) => [each, each]),
      );
      tf.dispose(kept);
    });

    test('an empty column is an empty tensor', async () => {
      const data = rangeDataset(0, 2).map((each) => ({
        none: { data: new Float32Array(0), shape: [0], dtype: 'float32' as const },
        each,
      }));
      await tensors(data.batch(2)).forEachAsync((batch) => {
        assert.deepEqual((batch as { none: tf.Tensor }).none.shape, [2, 0]);
        tf.dispose(batch);
      });
    });

    test('knows its place: a batch counts when it has left', async () => {
      const dataset = tensors(data().batch(8));
      const iterator = await dataset.iterator();
      for (let step = 0; step < 2; step += 1) tf.dispose((await iterator.next()).value);
      const state = await dataset.state();
      assert.equal(state.position, 16);
      const resumed = tensors(data().batch(8));
      resumed.restore(state);
      const rest: number[] = [];
      await resumed.forEachAsync((batch) => {
        rest.push(...((batch as { ys: tf.Tensor }).ys.dataSync() as Float32Array));
        tf.dispose(batch);
      });
      assert.deepEqual(rest, [...ys.slice(16)]);
    });
  });
