import assert from 'node:assert/strict';
import { test } from 'node:test';
import type * as jax from '@jax-js/jax';
import { arrayDataset } from '../../data/sources.ts';
import { arrays } from './dataset.ts';

test('arrays() gives batches of jax-js arrays with their shapes', async () => {
  const data = arrayDataset({
    x: { data: Float32Array.of(1, 2, 3, 4, 5, 6), shape: [3, 2], dtype: 'float32' },
    bytes: Uint8Array.of(7, 8, 255),
    half: { data: Uint16Array.of(0x3f80, 0x4000, 0xbf80), shape: [3], dtype: 'bfloat16' },
  }).batch(2);
  const found: unknown[] = [];
  for await (const { x, bytes, half } of arrays(data)) {
    const list = [x, bytes, half] as unknown as jax.Array[];
    found.push(list.map((array) => [array.shape, [...array.dataSync()]]));
  }
  assert.deepEqual(found, [
    [
      [
        [2, 2],
        [1, 2, 3, 4],
      ],
      [[2], [7, 8]],
      [[2], [1, 2]],
    ],
    [
      [
        [1, 2],
        [5, 6],
      ],
      [[1], [255]],
      [[1], [-1]],
    ],
  ]);
  const large = arrayDataset({ large: BigInt64Array.of(2n ** 40n) }).batch(1);
  await assert.rejects(arrays(large).next(), { code: 'ERR_HVD_INVALID_DTYPE' });
  await assert.rejects(arrays([] as never).next(), { code: 'ERR_HVD_INVALID_ARGUMENT' });
});
