import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as keras from '../../keras.ts';
import * as tensorflow from '../../tensorflow.ts';

test('horovod/keras has everything of horovod/tensorflow', () => {
  assert.deepEqual(
    Object.entries(tensorflow).filter(([name, value]) => (keras as Record<string, unknown>)[name] !== value),
    [],
  );
});
