// The registry of a data service is lost, and later a dispatcher: whoever takes part has to know the next registry by then, also the
// threads of trainers, which have said nothing to the registry meanwhile. And what compute workers say of a loss.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { ComputeJob } from '../../../test/support/compute-job.ts';
import { distribute, tfDataService } from '../data-service.ts';
import type { Dataset } from '../dataset.ts';
import { rangeDataset } from '../sources.ts';
import { TfDataServiceConfig } from './config.ts';
import type { ServiceStatus } from './registry-messages.ts';

const folder = mkdtempSync(join(tmpdir(), 'horovod-data-failover-'));
after(() => rmSync(folder, { recursive: true }));

const samples = 400;
const upTo = (count: number) => Array.from({ length: count }, (_, each) => each);
const datasetOf = () => rangeDataset(0, samples, { shuffle: { seed: 6, pool: 'all' } }).batch(8);

/** Until the registry in the file says so. */
async function untilStatus(path: string, isSo: (status: ServiceStatus) => boolean): Promise<void> {
  const config = await TfDataServiceConfig.read(path);
  await using client = config.computeClient();
  while (!isSo(await client.status())) await new Promise((resolve) => setImmediate(resolve));
}

const isWhole = ({ dispatchers, workers }: ServiceStatus) =>
  dispatchers.length === 1 && dispatchers.every(({ isAlive }) => isAlive) && workers.length === 2;

/** One epoch; `meanwhile` is called after five batches. */
async function epochOf(data: Dataset, meanwhile: () => Promise<void>): Promise<number[]> {
  const taken: number[] = [];
  let batches = 0;
  for await (const batch of data) {
    taken.push(...(batch as { data: Float64Array }).data);
    batches += 1;
    if (batches === 5) await meanwhile();
  }
  return taken.sort((a, b) => a - b);
}

describe('a data service whose registry was replaced', { timeout: 120_000 }, () => {
  test('loses its dispatcher: trainers and workers find the next one, and the loss is said once', async () => {
    const path = join(folder, 'compute.json');
    await using job = await ComputeJob.start(1, 'compute', 2, { path });
    const config = await TfDataServiceConfig.read(path);
    const data = datasetOf().sendToDataService(config, 0, 1).prefetch(2) as Dataset;
    const taken = await epochOf(data, async () => {
      await job.replaceRegistry();
      await untilStatus(path, isWhole);
      await job.loseDispatcher(0);
    });
    assert.deepEqual(taken, upTo(samples));
    await untilStatus(path, ({ dispatchers }) => dispatchers[0]?.incarnation === 2);
    const losses = job.lines.filter((line) => line.includes('dispatcher 0 is lost'));
    // Each of the two workers says it at most once.
    assert.ok(losses.length >= 1 && losses.length <= 2, job.lines.join('\n'));
    assert.equal(job.lines.filter((line) => line.includes('runs here now')).length, 1);
  });

  test('finds the dispatcher of a trainer again, which registers at the new registry', async () => {
    const path = join(folder, 'training-side.json');
    await using job = await ComputeJob.start(1, 'training', 2, { path });
    const config = await TfDataServiceConfig.read(path);
    await tfDataService(config, 0, async (service) => {
      const data = datasetOf().apply(distribute({ service, jobName: 'job' })) as Dataset;
      const taken = await epochOf(data, async () => {
        await job.replaceRegistry();
        await untilStatus(path, isWhole);
      });
      assert.deepEqual(taken, upTo(samples));
    });
  });
});

test('compute workers that wait for a dispatcher say once that it is lost', { timeout: 60_000 }, async () => {
  const path = join(folder, 'waiting.json');
  await using job = await ComputeJob.start(1, 'compute', 2, { path });
  await untilStatus(path, isWhole);
  // It is lost in all eyes but those of the registry, which takes no other one meanwhile.
  const config = await TfDataServiceConfig.read(path);
  await using occupier = config.computeClient();
  await job.loseDispatcher(0);
  const { incarnation } = await occupier.registerDispatcher(0, ['127.0.0.1:1']);
  assert.equal(incarnation, 2);
  const refusals = () => job.lines.filter((line) => line.includes('is not opened here')).length;
  while (refusals() < 2) await new Promise((resolve) => setImmediate(resolve));
  // Each tries again every few seconds.
  const triesUntil = performance.now() + 5000;
  while (performance.now() < triesUntil) await occupier.status();
  assert.equal(job.lines.filter((line) => line.includes('dispatcher 0 is lost')).length, 2);
  assert.equal(refusals(), 2);
});
