// What compute workers, trainers and dispatchers say of themselves, from their figures; and once the whole way to the registry.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ComputeJob } from '../../../test/support/compute-job.ts';
import type { Dataset } from '../dataset.ts';
import { Meter } from '../execute/metrics.ts';
import { exported } from '../plan/function-reference.ts';
import { rangeDataset } from '../sources.ts';
import { maxReportLength } from './registry-messages.ts';
import { dispatcherReport, WorkerReports } from './reports.ts';
import { TrainerWaits, type Waits, WaitTeller } from './trainer-waits.ts';

const idle = { batches: 0, bytes: 0, leases: 0, share: 0, busy: {} };

test('a worker reports rates of the last second, and the stage that was busiest in the last five', () => {
  const reports = new WorkerReports(0, idle);
  assert.equal(reports.look(1000, idle).busiestStage, undefined);
  const busy = { read: 100, parse: 300, 'map(augment)': 710 };
  assert.deepEqual(reports.look(2000, { batches: 41, bytes: 5e6, leases: 3, share: 0.62, busy }), {
    batchesPerSecond: 41,
    bytesPerSecond: 5e6,
    leases: 3,
    arena: 0.62,
    busiestStage: { name: 'map(augment)', share: 0.355 },
  });
  const later = { ...busy, read: 3000 };
  assert.deepEqual(reports.look(5000, { ...idle, busy: later }).busiestStage, { name: 'read', share: 0.6 });
  // What was long ago does not count.
  for (const at of [6000, 7000, 8000, 9000]) reports.look(at, { ...idle, busy: later });
  assert.equal(reports.look(10_000, { ...idle, busy: later }).busiestStage, undefined);
});

test('the share of a trainer is its time in next() of all of its time, also while it still waits', () => {
  const meter = new Meter();
  const told: Waits[] = [];
  const teller = new WaitTeller(meter, (waits) => told.push(waits));
  const consumer = new TrainerWaits(() => {});
  try {
    const step = (from: number, to: number) => {
      meter.waits(from);
      teller.waits(from);
      while (told.length > 0) consumer.hear(told.shift() as Waits, from);
      meter.took(8, 64);
      meter.waited(to);
      teller.goesOn(to);
      while (told.length > 0) consumer.hear(told.shift() as Waits, to);
    };
    // Opening comes before the first batch: it is part of no step.
    step(0, 900);
    assert.equal(consumer.look(1000), null);
    for (let at = 1000; at < 3000; at += 100) step(at, at + 40);
    assert.equal(consumer.look(3000), 0.4);
    meter.waits(3000);
    teller.waits(3000);
    consumer.hear(told.shift() as Waits, 3000);
    assert.equal(consumer.look(5000), 0.7);
    // The pass is over, and the loop does something else.
    meter.rests();
    teller.goesOn(5000);
    consumer.hear(told.shift() as Waits, 5000);
    consumer.look(5000);
    consumer.look(10_000);
    assert.equal(consumer.look(15_000), null);
  } finally {
    consumer.close();
  }
});

test('the report of a dispatcher has the trainers of each job, and as many jobs as it holds', () => {
  const job = { name: 'job', epoch: 3, done: 61, batches: 100, starved: [0.01, null] };
  const { batches: _, ...shown } = { ...job, done: 0.61 };
  assert.deepEqual(dispatcherReport([job, { ...job, batches: null }]).jobs, [
    shown,
    { name: 'job', epoch: 3, starved: [0.01, null] },
  ]);
  const many = dispatcherReport(Array.from({ length: 1000 }, () => job));
  assert.ok(many.jobs.length > 50);
  assert.ok(JSON.stringify(many).length <= maxReportLength);
});

test('the status of a service names the busiest stage of a worker, and how long trainers wait', {
  timeout: 60_000,
}, async () => {
  await using job = await ComputeJob.start(1, 'compute', 1);
  const functions = new URL('../../../test/support/pipeline-functions.js', import.meta.url);
  const data = rangeDataset(0, 100_000)
    .map(exported(functions, 'slow'))
    .batch(10)
    .sendToDataService(job.config, 0, 1) as Dataset;
  await using client = job.config.computeClient();
  const iterator = data.iterator();
  try {
    for (;;) {
      await iterator.next();
      const { workers, dispatchers } = await client.status();
      const stage = workers[0]?.report?.busiestStage;
      const [share] = dispatchers[0]?.report?.jobs[0]?.starved ?? [];
      if (stage === undefined || typeof share !== 'number') continue;
      assert.equal(stage.name, 'map(slow)');
      assert.ok(stage.share > 0 && stage.share <= 1, `${stage.share}`);
      assert.ok(share > 0 && share <= 1, `${share}`);
      break;
    }
  } finally {
    await iterator.return?.();
  }
});
