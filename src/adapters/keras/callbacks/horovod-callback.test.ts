import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { HorovodCallback, readLogs } from './horovod-callback.ts';

test('the event loop gets a turn every 125 ms, and only then', async () => {
  let now = 0;
  const clock = mock.method(performance, 'now', () => now);
  try {
    const callback = new (class extends HorovodCallback {})();
    let turns = 0;
    const count = () => {
      turns += 1;
      setImmediate(count).unref();
    };
    setImmediate(count).unref();
    for (let batch = 0; batch < 10; batch += 1) {
      now += 12;
      await callback.onBatchEnd(batch);
    }
    assert.equal(turns, 0);
    now += 12;
    await callback.onBatchEnd(10);
    assert.equal(turns, 1);
  } finally {
    clock.mock.restore();
  }
});

test('log values are read as numbers and stay the property of fit()', async () => {
  await tf.setBackend('cpu');
  const loss = tf.scalar(0.5);
  assert.deepEqual(await readLogs({ loss, acc: 0.25 }), { loss: 0.5, acc: 0.25 });
  assert.ok(!loss.isDisposed);
});

test('a model without an optimizer is an error that says what to do', () => {
  const callback = new (class extends HorovodCallback {
    look() {
      return this.optimizer;
    }
  })();
  assert.throws(() => callback.look(), { code: 'ERR_HVD_INVALID_ARGUMENT', message: /model\.compile\(\)/ });
});
