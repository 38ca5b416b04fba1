import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { errorOf } from '../../../../test/support/error-of.ts';
import { callable } from '../../tensorflow/callable-class.ts';
import { HorovodCallback } from './horovod-callback.ts';
import { list } from './list.ts';

before(() => tf.setBackend('cpu'));

class Recorder extends tf.Callback {
  readonly calls: string[] = [];
  override async onEpochEnd(epoch: number): Promise<void> {
    this.calls.push(`epoch ${epoch}`);
  }
}

async function train(callbacks: unknown[]): Promise<void> {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1] })] });
  model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
  await model.fit(tf.ones([4, 1]), tf.ones([4, 1]), {
    epochs: 2,
    batchSize: 2,
    verbose: 0,
    callbacks: callbacks as never,
  });
}

const plain = () => ({
  calls: [] as string[],
  onEpochEnd(epoch: number, logs?: tf.Logs) {
    this.calls.push(`epoch ${epoch}, loss is a ${typeof logs?.['loss']}`);
  },
});

for (const order of ['class first', 'plain first'] as const) {
  test(`a mixed list works, ${order}; plain objects keep their this and get numbers`, async () => {
    const [recorder, object] = [new Recorder(), plain()];
    await train(list(order === 'class first' ? [recorder, object] : [object, recorder]));
    assert.deepEqual(recorder.calls, ['epoch 0', 'epoch 1']);
    assert.deepEqual(object.calls, ['epoch 0, loss is a number', 'epoch 1, loss is a number']);
  });
}

test('hooks written into the list know the types of their parameters', async () => {
  const losses: number[] = [];
  const record = (epoch: number, loss = Number.NaN) => void losses.splice(epoch, 0, loss);
  await train(list([new Recorder(), { onEpochEnd: (epoch, logs) => record(epoch, logs?.['loss']) }]));
  assert.equal(losses.filter(Number.isFinite).length, 2);
});

test('what is undefined, null or false is left out; one callback need not be in a list', () => {
  assert.equal(list([undefined, new Recorder(), null, false]).length, 1);
  assert.equal(list(plain()).length, 1);
});

test('what is no callback is rejected', () => {
  const code = 'ERR_HVD_INVALID_ARGUMENT';
  assert.throws(() => list([Recorder as never]), { code, message: /Recorder.*instance, not the class/ });
  assert.throws(() => list([{} as never]), { code, message: /none of onTrainBegin/ });
  assert.throws(() => list([{ onEpochEnd: 3 } as never]), { code, message: /onEpochEnd/ });
  assert.throws(() => list(['log' as never]), { code });
});

test('a callable class can be made with and without new, extended, and tested with instanceof', () => {
  const Callable = callable(Recorder);
  assert.ok(Callable() instanceof Recorder);
  assert.ok(new Callable() instanceof Callable);
  class Further extends Callable {}
  assert.ok(new Further() instanceof Further);
  assert.equal(Callable().constructor.name, 'Recorder');
});

class Silent extends HorovodCallback {
  constructor() {
    super({ rank: () => 0, size: () => 1 });
  }
}

test('a callback of ours after a plain object is an error that says what to write', async () => {
  const error = await errorOf(train([plain(), new Silent()]));
  assert.match(
    String(error),
    /ERR_HVD_INVALID_ARGUMENT: .*begins with a plain object.*hvd\.callbacks\.list\(/,
  );
  await train(list([plain(), new Silent()]));
});

test('a plain object after a callback of ours fails in TensorFlow.js, and a warning says what to write', async (t) => {
  const warnings: string[] = [];
  t.mock.method(process.stderr, 'write', (text: string) => warnings.push(text) > 0);
  await assert.rejects(train([new Silent(), plain()]), /setParams is not a function/);
  await train(list([new Silent(), plain()]));
  assert.equal(warnings.length, 1);
  assert.match(String(warnings[0]), /warning.*hvd\.callbacks\.list\(/);
});
