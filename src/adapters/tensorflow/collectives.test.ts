// One rank alone, and a backend that can only be read asynchronously; several ranks are in src/multiprocess.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { init, shutdown } from '../../context/default/default-context.ts';
import { HorovodError } from '../../errors.ts';
import { broadcastVariables, broadcastVariablesSync } from './broadcast-variables.ts';
import * as hvd from './collectives.ts';
import { broadcastOptimizerState } from './optimizer-state.ts';
import { SyncBatchNormalization } from './sync-batch-normalization.ts';

const valuesOf = async (tensor: tf.Tensor) => Array.from(await tensor.data());

test('before init() the errors say so', async () => {
  const x = tf.tensor1d([1, 2]);
  const code = 'ERR_HVD_NOT_INITIALIZED';
  await assert.rejects(hvd.allreduce(x), { code });
  assert.throws(() => hvd.allreduceSync(x), { code });
  assert.throws(() => hvd.broadcastSync(x, 0), { code });
  await assert.rejects(broadcastVariables([], 0), { code });
  const layer = SyncBatchNormalization();
  const x2 = tf.reshape(x, [1, 2]);
  assert.deepEqual((layer.apply(x2) as tf.Tensor).shape, [1, 2]); // inference needs no other ranks
  assert.throws(() => layer.apply(x2, { training: true }), { code });
});

for (const backend of ['cpu', 'later']) {
  describe(`one rank alone, backend ${backend}`, () => {
    before(async () => {
      if (backend === 'later') registerLaterBackend();
      await tf.setBackend(backend);
      await init();
    });
    after(async () => {
      await shutdown();
      await tf.setBackend('cpu');
    });

    test('every promise form gives what one rank must get, as tensors of its own', async () => {
      const count = tf.memory().numTensors;
      const x = tf.tensor2d([
        [1, 2],
        [3, 4],
      ]);
      const results = [
        await hvd.allreduce(x),
        await hvd.allgather(x),
        await hvd.broadcast(x, 0),
        await hvd.reducescatter(x),
        (await hvd.alltoall(x)).output,
        ...(await hvd.groupedAllreduce([x, x])),
        ...(await hvd.groupedAllgather([x])),
        ...(await hvd.groupedReducescatter([x])),
      ];
      for (const result of results) {
        assert.notEqual(result, x);
        assert.deepEqual(result.shape, [2, 2]);
        assert.deepEqual(await valuesOf(result), [1, 2, 3, 4]);
      }
      assert.equal(tf.memory().numTensors, count + 1 + results.length);
      tf.dispose([x, ...results]);
    });

    test('variables, models and optimizers of one rank stay as they are', async () => {
      const variable = tf.tidy(() => tf.variable(tf.tensor1d([5])));
      const optimizer = tf.train.adam(0.1);
      await broadcastVariables([variable], 0);
      await broadcastOptimizerState(optimizer, 0);
      assert.equal(await hvd.allreduce(variable, { inPlace: true }), variable);
      assert.deepEqual(await valuesOf(variable), [5]);
      variable.dispose();
      optimizer.dispose();
    });

    test('typed arrays go to the core', async () => {
      assert.deepEqual([...(await hvd.allreduce(Float32Array.of(1, 2)))], [1, 2]);
      assert.deepEqual([...hvd.allgatherSync(Int32Array.of(3))], [3]);
    });

    if (backend === 'later') {
      test('Sync forms say that the backend cannot be read', () => {
        const x = tf.add(tf.tensor1d([1]), 1);
        const variable = tf.variable(x);
        for (const call of [
          () => hvd.allreduceSync(x),
          () => hvd.allgatherSync(x),
          () => hvd.broadcastSync(x, 0),
          () => broadcastVariablesSync([variable], 0),
        ]) {
          assert.throws(call, (error: HorovodError) => {
            assert.ok(HorovodError.is(error));
            assert.equal(error.code, 'ERR_HVD_UNSUPPORTED');
            assert.match(error.message, /later backend.*promise form/s);
            return true;
          });
        }
        variable.dispose();
        x.dispose();
      });
    } else {
      test('Sync forms give what one rank must get', () => {
        const [x, y] = tf.tidy(() => {
          const made = tf.tensor1d([1, 2]);
          return [made, hvd.allreduceSync(made)] as const;
        });
        assert.notEqual(x.dataId, y.dataId);
        assert.deepEqual([...y.dataSync()], [1, 2]);
        tf.dispose([x, y]);
      });
    }
  });
}

/** The cpu backend without its synchronous reads, as WebGPU is in Node. */
function registerLaterBackend(): void {
  tf.registerBackend('later', () => {
    const backend = tf.findBackendFactory('cpu')() as { readSync: unknown };
    const read = backend.readSync as (dataId: object) => unknown;
    return Object.assign(backend, {
      readSync() {
        throw new Error('no synchronous reads here.');
      },
      async read(dataId: object) {
        await new Promise(setImmediate);
        return read.call(backend, dataId);
      },
    }) as never;
  });
  tf.copyRegisteredKernels('cpu', 'later');
}
