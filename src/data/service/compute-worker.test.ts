// Upstream's test of compute workers (test_compute_worker.py): dispatchers × side × processing mode × reuse of the dataset, with what
// trainers call, a registry and threads; workers and trainers are in one process. Upstream skips round robin, which works here.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { ComputeJob } from '../../../test/support/compute-job.ts';
import { distribute, sendToDataService, tfDataService } from '../data-service.ts';
import type { Dataset } from '../dataset.ts';
import { rangeDataset } from '../sources.ts';
import { TfDataServiceConfig } from './config.ts';
import { Registry } from './registry.ts';
import type { ProcessingMode } from './requests.ts';
import { runComputeWorker, runDispatcher } from './worker-process.ts';

const samples = 512;
const upTo = (count: number) => Array.from({ length: count }, (_, each) => each);

const datasetOf = () => rangeDataset(0, samples, { shuffle: { seed: 6, pool: 'all' } }).batch(16) as Dataset;

/** One epoch of every trainer, in step. */
async function train(datasets: readonly Dataset[]): Promise<number[][]> {
  const iterators = datasets.map((dataset) => dataset.iterator());
  const taken: number[][] = datasets.map(() => []);
  for (;;) {
    const turns = await Promise.all(iterators.map((iterator) => iterator.next()));
    if (turns.every(({ done }) => done === true)) return taken;
    assert.ok(!turns.some(({ done }) => done === true), 'trainers end at the same step');
    for (const [rank, { value }] of turns.entries())
      taken[rank]?.push(...(value as { data: Float64Array }).data);
  }
}

const sorted = (list: readonly number[]) => [...list].sort((a, b) => a - b);

interface Reuse {
  readonly reuseDataset: boolean;
  readonly roundRobin: boolean;
}

async function check(
  job: ComputeJob,
  processingMode: ProcessingMode,
  { reuseDataset, roundRobin }: Reuse,
): Promise<void> {
  const { config } = job;
  const size = 2;
  const ranks = upTo(size);
  const parts =
    config.dispatcherSide === 'training'
      ? await Promise.all(ranks.map((rank) => tfDataService(config, rank)))
      : [];
  const datasets = ranks.map((rank) => {
    const [dataset, part] = [datasetOf(), parts[rank]];
    if (part === undefined)
      return dataset.apply(
        sendToDataService(config, { rank, size, processingMode, reuseDataset, roundRobin }),
      );
    const consumer = roundRobin ? { consumerIndex: rank, numConsumers: size } : {};
    const shared = reuseDataset && !roundRobin ? { consumerIndex: rank, numConsumers: size } : consumer;
    const name = reuseDataset ? { jobName: 'job', ...shared } : {};
    return dataset.apply(distribute({ service: part.dispatcherAddress, processingMode, ...name }));
  });
  try {
    const taken = await train(datasets);
    const all = sorted(taken.flat());
    const copies = processingMode === 'parallel_epochs' ? config.workersPerDispatcher : 1;
    const isShared = reuseDataset && config.dispatchers === 1;
    const times = (isShared ? 1 : size) * copies;
    assert.deepEqual(all, sorted(upTo(samples).flatMap((each) => new Array<number>(times).fill(each))));
    if (!isShared)
      for (const own of taken)
        assert.deepEqual(
          sorted(own),
          sorted(upTo(samples).flatMap((each) => new Array<number>(copies).fill(each))),
        );
  } finally {
    for (const part of parts) await part.close();
  }
}

describe('compute workers', { timeout: 240_000 }, () => {
  for (const side of ['compute', 'training'] as const) {
    for (const processingMode of ['distributed_epoch', 'parallel_epochs'] as const) {
      test(`single dispatcher on the ${side} side, ${processingMode}`, async () => {
        await using job = await ComputeJob.start(1, side, 2);
        await check(job, processingMode, { reuseDataset: false, roundRobin: false });
      });
      test(`single dispatcher on the ${side} side, ${processingMode}, reused first come, first served`, async () => {
        await using job = await ComputeJob.start(1, side, 2);
        await check(job, processingMode, { reuseDataset: true, roundRobin: false });
      });
      test(`single dispatcher on the ${side} side, ${processingMode}, reused round robin`, async () => {
        await using job = await ComputeJob.start(1, side, 2);
        await check(job, processingMode, { reuseDataset: true, roundRobin: true });
      });
      test(`two dispatchers on the ${side} side, ${processingMode}`, async () => {
        await using job = await ComputeJob.start(2, side);
        for (const reuseDataset of [false, true])
          await check(job, processingMode, { reuseDataset, roundRobin: false });
      });
    }
  }

  test("with whenLost: 'local' the trainer goes on by itself when all workers are lost, and warns", async (t) => {
    const lines: string[] = [];
    t.mock.method(process.stderr, 'write', (line: string) => lines.push(line) > 0);
    const fields = {
      dispatchers: 1,
      workersPerDispatcher: 1,
      dispatcherSide: 'compute',
      key: randomBytes(32).toString('hex'),
      timeout: 3,
      incarnation: 1,
    } as const;
    const registry = await Registry.start({ ...fields, onShutdown: async () => {} });
    const config = new TfDataServiceConfig({ ...fields, addresses: registry.addresses });
    const [client, dispatching, working] = [
      config.computeClient(),
      new AbortController(),
      new AbortController(),
    ];
    const member = { config, client, index: 0 };
    const running = [
      runDispatcher({ ...member, signal: dispatching.signal }),
      runComputeWorker({
        ...member,
        dispatcher: 0,
        threads: 0,
        modules: process.cwd(),
        log: () => {},
        signal: working.signal,
      }),
    ];
    try {
      const data = datasetOf().sendToDataService(config, 0, 1, { whenLost: 'local' }).prefetch(2);
      const iterator = data.iterator();
      const taken: number[] = [];
      for (let count = 0; ; count++) {
        if (count === 5) {
          working.abort();
          await running[1];
        }
        const { done, value } = await iterator.next();
        if (done === true) break;
        taken.push(...(value as { data: Float64Array }).data);
      }
      assert.deepEqual(sorted(taken), upTo(samples));
      assert.equal(lines.length, 1);
      assert.match(
        lines[0] ?? '',
        /\[horovod warning\] rank 0: All compute workers of the data service are lost/,
      );
    } finally {
      dispatching.abort();
      working.abort();
      await Promise.all(running);
      await client.close();
      await registry.close();
    }
  });

  test('the service goes on when a training job has ended; batches come through memory, or over connections', async () => {
    await using job = await ComputeJob.start(1, 'compute', 2);
    for (const transport of ['auto', 'tcp'] as const) {
      const dataset = datasetOf().sendToDataService(job.config, 0, 1, { transport });
      const [taken] = await train([dataset as Dataset]);
      assert.deepEqual(sorted(taken ?? []), upTo(samples));
    }
    assert.throws(() => datasetOf().sendToDataService(job.config, 0, 1, { transport: 'shm' as never }), {
      code: 'ERR_HVD_INVALID_ARGUMENT',
      message: /transport is 'auto' or 'tcp'/,
    });
  });

  test('errors have the texts of Python Horovod where it has any', async () => {
    await using job = await ComputeJob.start(2, 'training');
    assert.throws(() => datasetOf().sendToDataService(job.config, 0, 2), {
      code: 'ERR_HVD_INVALID_ARGUMENT',
      message: /training side dispatcher not supported, use tfDataService\(\) instead/,
    });
    await assert.rejects(tfDataService(job.config, 5), /2 dispatchers, and there are 6 trainers/);
  });
});
