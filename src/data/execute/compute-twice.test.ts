// HOROVOD_DATA_CHECK: a function whose results depend on something else than its sample is found, wherever it runs.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { TestService } from '../../../test/support/data-service.ts';
import type { Dataset } from '../dataset.ts';
import { exported } from '../plan/function-reference.ts';
import { rangeDataset } from '../sources.ts';

const functions = new URL('../../../test/support/pipeline-functions.js', import.meta.url);
const pipeline = (name: string) =>
  rangeDataset(0, 4000, { shuffle: { seed: 5 } })
    .map(exported(functions, name))
    .batch(4) as Dataset;

async function epochOf(data: Dataset, threads: number, isChecked = true): Promise<number> {
  const before = { ...process.env };
  process.env['HOROVOD_DATA_THREADS'] = String(threads);
  if (isChecked) process.env['HOROVOD_DATA_CHECK'] = '1';
  try {
    let batches = 0;
    for await (const _ of data) batches += 1;
    return batches;
  } finally {
    process.env = before;
  }
}

const complaint = {
  code: 'ERR_HVD_DATA_FUNCTION',
  message:
    /position \d+ of epoch 0 was computed twice, with different results \(column "x"\).*random\(\) of the context.*map\(remembers\)/s,
};

describe('with HOROVOD_DATA_CHECK', { timeout: 120_000 }, () => {
  for (const threads of [0, 2]) {
    test(`a function that remembers is an error with ${threads} threads`, async () => {
      await assert.rejects(epochOf(pipeline('remembers'), threads), complaint);
      assert.equal(await epochOf(pipeline('remembers'), threads, false), 1000);
    });

    test(`a function that uses random() of its context passes with ${threads} threads`, async () => {
      assert.equal(await epochOf(pipeline('noisy'), threads), 1000);
    });
  }

  test('compute workers check, too', async () => {
    const environment = { HOROVOD_DATA_CHECK: '1' };
    await using service = await TestService.start({ workers: 1, environment });
    await assert.rejects(async () => {
      for await (const _ of service.through(pipeline('remembers')));
    }, complaint);
  });
});
