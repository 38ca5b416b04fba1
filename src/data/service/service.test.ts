// Dispatcher, workers and consumers together, over loopback: what trainers get is what a pipeline without a service gives, each batch
// once, whatever workers come and go.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { TestService, type TrainerOptions } from '../../../test/support/data-service.ts';
import { until } from '../../../test/support/transport-world.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import type { Dataset } from '../dataset.ts';
import { exported } from '../plan/function-reference.ts';
import { resumableOf } from '../resumable.ts';
import { rangeDataset } from '../sources.ts';
import type { TrainerProgress } from './service-data.ts';

const functions = new URL('../../../test/support/pipeline-functions.js', import.meta.url);
const numbersOf = (batch: unknown): number[] => [...(batch as { data: Float64Array }).data];

async function epochOf(dataset: Dataset): Promise<number[][]> {
  const batches: number[][] = [];
  for await (const batch of dataset) batches.push(numbersOf(batch));
  return batches;
}

const sorted = (batches: readonly number[][]) => batches.map((batch) => batch.join()).sort();
const samples = (batches: readonly number[][]) => batches.flat().sort((a, b) => a - b);
const upTo = (count: number) => Array.from({ length: count }, (_, each) => each);

/** Trainers that take their batches one after the other, as training does. */
function trainers(
  service: TestService,
  dataset: Dataset<never>,
  size: number,
  options: TrainerOptions = {},
): Dataset[] {
  return upTo(size).map((rank) =>
    service.through(dataset as Dataset, { rank, size, jobName: 'job', ...options }),
  );
}

/** Steps of all until an epoch ends for all; a trainer that ends while others go on is an error. */
async function lockstep(
  datasets: readonly Dataset[],
  limit = Number.POSITIVE_INFINITY,
): Promise<number[][][]> {
  const iterators = datasets.map((dataset) => dataset.iterator());
  const taken: number[][][] = datasets.map(() => []);
  for (let step = 0; step < limit; step++) {
    const turns = await Promise.all(iterators.map((iterator) => iterator.next()));
    const ends = turns.filter(({ done }) => done === true).length;
    assert.ok(
      ends === 0 || ends === turns.length,
      `${ends} of ${turns.length} trainers ended at step ${step}`,
    );
    if (ends > 0) break;
    for (const [rank, { value }] of turns.entries()) taken[rank]?.push(numbersOf(value));
  }
  return taken;
}

describe('a data service', { timeout: 120_000 }, () => {
  test('one worker gives one trainer the batches of the local pipeline', async () => {
    await using service = await TestService.start({ workers: 1 });
    const local = rangeDataset(0, 103, { shuffle: { seed: 3, pool: 'all' } }).batch(8);
    const data = service.through(local as Dataset);
    for (let epoch = 0; epoch < 3; epoch++) {
      assert.deepEqual(sorted(await epochOf(data)), sorted(await epochOf(local as Dataset)));
    }
    assert.equal(data.size, 13);
  });

  test('the batches are the same with one worker and with several, with threads and without', async () => {
    const plan = rangeDataset(0, 500, { shuffle: { seed: 1, pool: 100 }, lanes: 8 })
      .map(exported(functions, 'noisy'))
      .batch(16);
    const found: string[][] = [];
    for (const [workers, threads] of [
      [1, '0'],
      [3, '0'],
      [2, '2'],
    ] as const) {
      await using service = await TestService.start({
        workers,
        environment: { HOROVOD_DATA_THREADS: threads },
      });
      const data = service.through(plan as Dataset);
      found.push(sorted([...(await epochOf(data)), ...(await epochOf(data))]));
    }
    assert.deepEqual(found[1], found[0]);
    assert.deepEqual(found[2], found[0]);
  });

  test('trainers that share a job take each sample once, and the same number of batches each', async () => {
    await using service = await TestService.start({ workers: 3 });
    const shared = trainers(service, rangeDataset(0, 240).batch(8) as never, 3);
    for (let epoch = 0; epoch < 2; epoch++) {
      const taken = await lockstep(shared);
      assert.deepEqual(
        taken.map((batches) => batches.length),
        [10, 10, 10],
      );
      assert.deepEqual(samples(taken.flat()), upTo(240));
    }
  });

  test("what cannot be divided follows `uneven`: 'pad' repeats batches of the epoch, 'drop' leaves some out", async () => {
    await using service = await TestService.start({ workers: 2 });
    const padded = await lockstep(trainers(service, rangeDataset(0, 100).batch(10) as never, 3));
    assert.deepEqual(
      padded.map((batches) => batches.length),
      [4, 4, 4],
    );
    assert.deepEqual([...new Set(samples(padded.flat()))], upTo(100));
    const plan = rangeDataset(0, 100, { uneven: 'drop' }).batch(10);
    const dropped = await lockstep(trainers(service, plan as never, 3, { jobName: 'other' }));
    assert.deepEqual(
      dropped.map((batches) => batches.length),
      [3, 3, 3],
    );
    assert.equal(new Set(samples(dropped.flat())).size, 90);
  });

  test('round robin gives every trainer the same batches in the same order each time', async () => {
    const runs: string[] = [];
    for (const workers of [1, 3]) {
      await using service = await TestService.start({ workers });
      const plan = rangeDataset(0, 230, { shuffle: { seed: 5, pool: 'all' } }).batch(10);
      const taken = await lockstep(trainers(service, plan as never, 2, { isRoundRobin: true }));
      assert.deepEqual([...new Set(samples(taken.flat()))], upTo(230));
      runs.push(JSON.stringify(taken));
    }
    assert.equal(runs[0], runs[1]);
  });

  test('trainers with jobs of their own each see every sample, in an order of their own', async () => {
    await using service = await TestService.start({ workers: 2 });
    const plan = rangeDataset(0, 96, { shuffle: { seed: 2, pool: 'all' } }).batch(8);
    const [one, other] = await lockstep(trainers(service, plan as never, 2, { jobName: undefined }));
    assert.deepEqual(samples(one ?? []), upTo(96));
    assert.deepEqual(samples(other ?? []), upTo(96));
    assert.notDeepEqual(sorted(one ?? []), sorted(other ?? []));
  });

  test('with parallel epochs every worker goes through the whole data', async () => {
    await using service = await TestService.start({ workers: 3 });
    const plan = rangeDataset(0, 64, { shuffle: { seed: 2, pool: 'all' } }).batch(8);
    const data = service.through(plan as Dataset, { isParallel: true });
    const batches = await epochOf(data);
    assert.deepEqual(
      samples(batches),
      upTo(64).flatMap((each) => [each, each, each]),
    );
    assert.equal(new Set(sorted(batches)).size, 24);
  });

  test('pipelines that filter give every element that is left once, and every trainer as many batches', async () => {
    await using service = await TestService.start({ workers: 3 });
    const plan = rangeDataset(0, 900).filter(exported(functions, 'isEven')).batch(4);
    for (let epoch = 0; epoch < 2; epoch++) {
      const taken = await lockstep(trainers(service, plan as never, 2, { jobName: `job ${epoch}` }));
      const found = new Set(samples(taken.flat()));
      assert.deepEqual(
        [...found],
        upTo(450).map((each) => each * 2),
      );
    }
  });

  test('calls after sendToDataService() run in the trainer', async () => {
    await using service = await TestService.start({ workers: 2 });
    const data = service
      .through(rangeDataset(0, 40) as Dataset)
      .map((value) => (value as number) * 10)
      .filter((value) => (value as number) < 300)
      .batch(4);
    const first = await epochOf(data);
    assert.deepEqual(
      samples(first),
      upTo(30).map((each) => each * 10),
    );
    assert.deepEqual(samples(await epochOf(data)), samples(first));
    assert.throws(() => data.cache(), /call it before sendToDataService\(\)/);
    const few = service.through(rangeDataset(0, 40).repeat().batch(4) as Dataset).take(25);
    assert.equal((await epochOf(few)).length, 25);
  });

  test('state() and restore() go on exactly where the training was, with other numbers of trainers too', async () => {
    await using service = await TestService.start({ workers: 2 });
    const plan = rangeDataset(0, 240, { shuffle: { seed: 4, pool: 'all' } }).batch(8);
    const before = trainers(service, plan as never, 3, { jobName: 'one' });
    const taken = await lockstep(before, 4);
    const [state, same] = await Promise.all(before.map((each) => each.state()));
    assert.deepEqual(same, state);
    // Taken after the state, and so again after it is restored.
    await lockstep(before, 2);
    assert.ok(state !== undefined);
    const text = JSON.stringify(state);
    for (const [size, jobName] of [
      [3, 'two'],
      [2, 'three'],
    ] as const) {
      const after = trainers(service, plan as never, size, { jobName });
      for (const each of after) each.restore(JSON.parse(text));
      const rest = await lockstep(after);
      assert.deepEqual(samples([...taken.flat(), ...rest.flat()]), upTo(240));
      // The next epoch is whole.
      assert.deepEqual(samples((await lockstep(after)).flat()), upTo(240));
    }
    for (const each of before) each.restore(JSON.parse(text));
    const again = await lockstep(before);
    assert.deepEqual(samples([...taken.flat(), ...again.flat()]), upTo(240));
  });

  test('trainers with jobs of their own have one state, with the place of each', async () => {
    await using service = await TestService.start({ workers: 2 });
    const plan = rangeDataset(0, 96, { shuffle: { seed: 2, pool: 'all' } }).batch(8);
    const all: TrainerProgress[] = [];
    const gather = (own: TrainerProgress) => {
      all.push(own);
      return all;
    };
    const before = trainers(service, plan as never, 2, { jobName: undefined, gather });
    const [one, other] = await lockstep(before, 5);
    await before[0]?.state();
    const state = (await before[1]?.state()) as never;
    const later = trainers(service, plan as never, 2, { jobName: undefined });
    for (const each of later) each.restore(state);
    const [oneRest, otherRest] = await lockstep(later);
    assert.deepEqual(samples([...(one ?? []), ...(oneRest ?? [])]), upTo(96));
    assert.deepEqual(samples([...(other ?? []), ...(otherRest ?? [])]), upTo(96));
    const three = service.through(plan as Dataset, { size: 3 });
    assert.throws(
      () => three.restore(state),
      /of 2 trainers that each went through the data; now there are 3/,
    );
  });

  test('what all trainers have taken makes a place to which those that are left go back', async () => {
    await using service = await TestService.start({ workers: 2 });
    const plan = rangeDataset(0, 240).batch(8);
    const told: TrainerProgress[] = [];
    const gather = (own: TrainerProgress) => {
      told.push(own);
      return told;
    };
    const before = trainers(service, plan as never, 3, { gather });
    const taken = await lockstep(before, 4);
    for (const each of before) resumableOf(each)?.agree?.();
    // The last of them was told by all.
    const place = resumableOf(before[2])?.place();
    const left = trainers(service, plan as never, 2, { jobName: 'left' });
    for (const each of left) resumableOf(each)?.resumeAt(structuredClone(place));
    assert.deepEqual(samples([...taken.flat(), ...(await lockstep(left)).flat()]), upTo(240));
  });

  test('a worker that is killed costs no batch and repeats none', async () => {
    await using service = await TestService.start({ workers: 3 });
    const shared = trainers(service, rangeDataset(0, 400).batch(5) as never, 2, { depth: 2 });
    const taken: number[][] = [];
    for (let round = 0; round < 4; round++) {
      taken.push(...(await lockstep(shared, 6)).flat());
      if (round < 2) await service.killWorker(0);
      else await service.addWorker();
    }
    taken.push(...(await lockstep(shared)).flat());
    assert.deepEqual(samples(taken), upTo(400));
  });

  test('a dispatcher that is killed has a successor, which grants nothing a second time', async () => {
    await using service = await TestService.start({ workers: 2 });
    const shared = trainers(service, rangeDataset(0, 400).batch(5) as never, 2, { depth: 3 });
    const taken: number[][] = [];
    for (let round = 0; round < 3; round++) {
      taken.push(...(await lockstep(shared, 5)).flat());
      await service.killDispatcher();
      await service.startDispatcher();
    }
    taken.push(...(await lockstep(shared)).flat());
    assert.deepEqual(samples(taken), upTo(400));
  });

  test('a job whose trainers are all lost is forgotten after a while, and one that trainers have left at once', async () => {
    await using service = await TestService.start({ workers: 2, forgetAfterMs: 300 });
    const jobs = () => service.dispatcher.describe().jobs.map(({ name }) => name);
    const plan = rangeDataset(0, 400).batch(5);
    await lockstep(trainers(service, plan as never, 2, { jobName: 'lost' }), 3);
    const lost = service.hosts.splice(0);
    await lockstep(trainers(service, plan as never, 1, { jobName: 'left' }), 3);
    assert.deepEqual(jobs(), ['lost', 'left']);
    lost[0]?.consumer.closeAbruptly();
    for (const host of service.hosts) await host.close();
    await until(() => jobs().join() === 'lost', 'the job that was left is forgotten');
    // One of two is still there.
    const lostAt = performance.now();
    lost[1]?.consumer.closeAbruptly();
    await until(() => jobs().length === 0, 'the job that was lost is forgotten');
    assert.ok(performance.now() - lostAt >= 290);
    for (const host of lost) await host.close();
    const again = trainers(service, plan as never, 1, { jobName: 'lost' });
    assert.deepEqual(samples((await lockstep(again)).flat()), upTo(400));
  });

  test('without compute workers, next() fails after the timeout and names the last loss', async () => {
    await using service = await TestService.start({ workers: 1, timeoutMs: 700 });
    const data = service.through(rangeDataset(0, 400).batch(5) as Dataset, { depth: 1 });
    const iterator = data.iterator();
    await iterator.next();
    await service.killWorker(0);
    await assert.rejects(
      async () => {
        for (;;) await iterator.next();
      },
      {
        code: 'ERR_HVD_DATA_SERVICE',
        message: /no compute worker for 0\.7 s.*compute worker 1 on .* was lost/,
      },
    );
  });

  test('without a dispatcher, next() fails after the timeout', async () => {
    await using service = await TestService.start({ workers: 1, timeoutMs: 700 });
    const data = service.through(rangeDataset(0, 400).batch(5) as Dataset, { depth: 1 });
    const iterator = data.iterator();
    await iterator.next();
    await service.killDispatcher();
    await assert.rejects(
      async () => {
        for (;;) await iterator.next();
      },
      { code: 'ERR_HVD_DATA_SERVICE', message: /no connection to dispatcher 0 for 0\.7 s/ },
    );
  });

  test('a function that throws on a worker rejects next() of every trainer, and names the worker', async () => {
    await using service = await TestService.start({ workers: 1 });
    const plan = rangeDataset(0, 64).map(exported(functions, 'failAt30')).batch(8);
    for (const data of trainers(service, plan as never, 2)) {
      await assert.rejects(epochOf(data), {
        code: 'ERR_HVD_DATA_FUNCTION',
        message: /position 30 of epoch 0.*on compute worker 1/,
      });
    }
  });

  test('a second consumer with another pipeline is an error that names the call', async () => {
    await using service = await TestService.start({ workers: 1 });
    const one = service.through(rangeDataset(0, 64).batch(8) as Dataset, { jobName: 'job', size: 2 });
    const first = one.iterator().next();
    const other = service.through(rangeDataset(0, 64).batch(4) as Dataset, {
      jobName: 'job',
      size: 2,
      rank: 1,
    });
    await first;
    await assert.rejects(epochOf(other), {
      code: 'ERR_HVD_MISMATCH',
      message: /call 2 of the pipeline is batch\(\) with other arguments/,
    });
  });

  test('who has another key gets no connection', async () => {
    await using service = await TestService.start({ workers: 1, timeoutMs: 500 });
    const data = service.through(rangeDataset(0, 64).batch(8) as Dataset, { secret: JobSecret.generate() });
    await assert.rejects(epochOf(data), {
      code: 'ERR_HVD_DATA_SERVICE',
      message: /rejected: another job, or a different secret/,
    });
  });

  test('batches travel encrypted with --encrypt', async () => {
    await using service = await TestService.start({ workers: 2, isEncrypted: true });
    const data = service.through(rangeDataset(0, 64).batch(8) as Dataset);
    assert.deepEqual(samples(await epochOf(data)), upTo(64));
  });

  test('batches that are given back lend their memory to later ones; others keep theirs', async () => {
    await using service = await TestService.start({ workers: 1 });
    const rows = rangeDataset(0, 40)
      .map<{ row: Tensor; id: Tensor }>(exported(functions, 'wideRow'))
      .batch(4);
    type Batch = { row: Tensor; id: Tensor };
    const check = ({ row, id }: Batch) => {
      const ids = [...id.data];
      for (const [at, each] of row.data.entries())
        assert.equal(each, Number(ids[Math.floor(at / 8192)]) % 251);
    };
    const buffersOf = async (release: boolean, dataset: Dataset<Batch>) => {
      const batches = dataset.iterator();
      const [kept, buffers]: [Batch[], ArrayBufferLike[]] = [[], []];
      for await (const batch of batches) {
        check(batch);
        buffers.push(batch.row.data.buffer);
        // Small columns are copies, which stay.
        assert.notEqual(batch.id.data.buffer, batch.row.data.buffer);
        if (release) batches.release(batch);
        else kept.push(batch);
      }
      for (const batch of kept) check(batch);
      return new Set(buffers).size;
    };
    const through = (options: TrainerOptions = {}) =>
      service.through(rows as Dataset, { depth: 2, ...options }) as Dataset<Batch>;
    const reused = await buffersOf(true, through());
    assert.ok(reused < 8, `${reused} pieces of memory`);
    assert.equal(await buffersOf(false, through()), 10);
    // A function may have kept a batch.
    assert.equal(
      await buffersOf(
        true,
        through().map((batch) => batch),
      ),
      10,
    );
  });

  test('functions of this process, and arrays in its memory, are errors that say what to do', async () => {
    await using service = await TestService.start({ workers: 0 });
    const local = rangeDataset(0, 64).map((value) => value);
    assert.throws(() => service.through(local as Dataset), {
      code: 'ERR_HVD_INVALID_ARGUMENT',
      message: /map\(exported\(new URL\('\.\/module\.ts', import\.meta\.url\), 'fn'\)\)/,
    });
  });
});
