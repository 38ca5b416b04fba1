import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as elastic from '../../elastic/index.ts';
import * as keras from '../../keras.ts';
import * as tensorflow from '../../tensorflow.ts';

/** Entries that another namespace lacks, or has another value for. */
function missingIn(other: object, namespace: object): string[] {
  return Object.entries(namespace)
    .filter(([name, value]) => (other as Record<string, unknown>)[name] !== value)
    .map(([name]) => name);
}

test('horovod/keras has everything of horovod/tensorflow', () => {
  // Each face has its own, with more in it.
  assert.deepEqual(missingIn(keras, tensorflow), ['elastic']);
  assert.deepEqual(missingIn(keras.elastic, tensorflow.elastic), []);
});

test('hvd.elastic of a framework has everything of horovod/elastic, with samplers and streams that know tensors', () => {
  assert.deepEqual(missingIn(tensorflow.elastic, elastic), ['ElasticSampler', 'resume']);
});
