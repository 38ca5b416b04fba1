// Dispatcher, workers and consumers together, over loopback: what trainers get is what a pipeline without a service gives, each batch
// once, whatever workers come and go.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { TestService } from '../../../test/support/data-service.ts';
import type { Dataset } from '../dataset.ts';
import { rangeDataset } from '../sources.ts';

const numbersOf = (batch: unknown): number[] => [...(batch as { data: Float64Array }).data];

async function epochOf(dataset: Dataset): Promise<number[][]> {
  const batches: number[][] = [];
  for await (const batch of dataset) batches.push(numbersOf(batch));
  return batches;
}

const sorted = (batches: readonly number[][]) => batches.map((batch) => batch.join()).sort();

describe('a data service', { timeout: 60_000 }, () => {
  test('one worker gives one trainer the batches of the local pipeline', async () => {
    await using service = await TestService.start({ workers: 1 });
    const local = rangeDataset(0, 103, { shuffle: { seed: 3, pool: 'all' } }).batch(8);
    const data = service.through(local as Dataset);
    for (let epoch = 0; epoch < 3; epoch++) {
      assert.deepEqual(sorted(await epochOf(data)), sorted(await epochOf(local as Dataset)));
    }
    assert.equal(data.size, 13);
  });
});
