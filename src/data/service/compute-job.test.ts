// Compute jobs whose ranks live in this process, with workers that only register: who starts what, and how the service ends.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { errorOf } from '../../../test/support/error-of.ts';
import { HorovodError } from '../../errors.ts';
import { type ComputeJobOptions, type ComputeJobParts, joinService, runComputeJob } from './compute-job.ts';
import { TfDataServiceConfig } from './config.ts';

const folder = mkdtempSync(join(tmpdir(), 'horovod-compute-job-'));
after(() => rmSync(folder, { recursive: true }));
let count = 0;

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted)
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

/** Parts that register, say so in `order`, and end with their signal. */
function registeringParts(order: string[]): ComputeJobParts {
  return {
    async runWorker({ client, index, dispatcher, signal }) {
      await client.registerWorker(dispatcher, [`worker-${index}:1`], { signal });
      order.push(`worker ${index} of ${dispatcher}`);
      await aborted(signal);
      order.push(`worker ${index} ended`);
    },
    async runDispatcher({ client, index, signal }) {
      await client.registerDispatcher(index, [`dispatcher-${index}:1`], { signal });
      order.push(`dispatcher ${index}`);
      await aborted(signal);
    },
  };
}

function startRanks(size: number, options: Partial<ComputeJobOptions> = {}) {
  const path = options.path ?? join(folder, `compute-${count++}.json`);
  const order: string[] = [];
  const lines: string[] = [];
  const stops = Array.from({ length: size }, () => new AbortController());
  const ranks = stops.map(({ signal }, rank) =>
    runComputeJob({
      path,
      rank,
      size,
      dispatchers: 1,
      dispatcherSide: 'compute',
      timeout: 30,
      parts: registeringParts(order),
      signal,
      log: (line) => lines.push(line),
      ...options,
    }),
  );
  for (const rank of ranks) rank.catch(() => undefined);
  const end = Promise.all(ranks);
  end.catch(() => undefined);
  return { path, order, lines, stops, ranks, end };
}

test('a service with two dispatchers serves until a training process shuts it down', async () => {
  const { path, order, lines, end } = startRanks(4, { dispatchers: 2 });
  const config = await TfDataServiceConfig.read(path, { waitForFileCreation: true });
  assert.deepEqual([config.dispatchers, config.workersPerDispatcher], [2, 2]);
  await using client = config.computeClient();
  for (const index of [0, 1]) {
    assert.deepEqual((await client.waitForDispatcher(index)).addresses, [`dispatcher-${index}:1`]);
    const workers = await client.waitForWorkers(index);
    assert.deepEqual(workers.map(({ addresses }) => addresses[0]).sort(), [
      `worker-${2 * index}:1`,
      `worker-${2 * index + 1}:1`,
    ]);
  }
  await client.shutdown();
  assert.equal(existsSync(path), false);
  await client.close();
  await end;
  assert.equal(order.filter((line) => line.endsWith('ended')).length, 4);
  assert.match(lines[0] as string, /^the config of the data service is in .*; waiting for 4 workers\.$/);
  assert.match(
    lines[1] as string,
    /^the data service is ready: 4 workers, 2 dispatchers\. Training processes read /,
  );
  assert.equal(lines[2], 'the data service has ended.');
});

test('with dispatchers on the training side, the service starts none', async () => {
  const { path, order, stops, end } = startRanks(2, { dispatcherSide: 'training' });
  const config = await TfDataServiceConfig.read(path, { waitForFileCreation: true });
  await using client = config.computeClient();
  await client.waitForWorkers(0);
  assert.equal((await client.status()).dispatchers.length, 0);
  stops[0]?.abort();
  await client.close();
  await end;
  assert.deepEqual(
    order.filter((line) => line.startsWith('dispatcher')),
    [],
  );
  assert.equal(existsSync(path), false);
});

test('a signal to rank 0 ends the service, one to another rank ends that worker', async () => {
  const { path, stops, ranks, end } = startRanks(3);
  const config = await TfDataServiceConfig.read(path, { waitForFileCreation: true });
  await using client = config.computeClient();
  await client.waitForWorkers(0);
  stops[2]?.abort();
  await ranks[2];
  while ((await client.workers(0)).length > 2);
  stops[0]?.abort();
  await client.close();
  await end;
  assert.equal(existsSync(path), false);
});

test('one more worker joins the dispatcher with the fewest', async () => {
  const { path, order, end } = startRanks(2, { dispatchers: 2 });
  const config = await TfDataServiceConfig.read(path, { waitForFileCreation: true });
  await using client = config.computeClient();
  for (const index of [0, 1]) await client.waitForWorkers(index);
  const stopping = new AbortController();
  const join = () =>
    joinService({ path, parts: registeringParts(order), signal: stopping.signal, log: () => {} });
  const first = join();
  while ((await client.workers(0)).length < 2);
  const second = join();
  while ((await client.workers(1)).length < 2);
  assert.ok(order.includes('worker 2 of 0') && order.includes('worker 3 of 1'));
  stopping.abort();
  await Promise.all([first, second]);
  await client.shutdown();
  await client.close();
  await end;
});

test('a number of processes that is no multiple of the dispatchers is an error', async () => {
  const { ranks } = startRanks(3, { dispatchers: 2 });
  for (const rank of ranks) {
    assert.equal(
      (await errorOf(rank)).message,
      'ERR_HVD_SETTING: Number of processes (3) must be a multiple of number of dispatchers (2).',
    );
  }
});

test('a path whose service is running is an error, and that service goes on', async () => {
  const first = startRanks(1);
  const config = await TfDataServiceConfig.read(first.path, { waitForFileCreation: true });
  const second = startRanks(1, { path: first.path });
  const error = await errorOf(second.ranks[0] as Promise<void>);
  assert.match(error.message, /is running already \(process \d+ on .*\)\. End it/);
  await using client = config.computeClient();
  await client.waitForWorkers(0);
  await client.shutdown();
  await client.close();
  await first.end;
});

test('a rank that was started for another service says so', async () => {
  const { path, end, stops } = startRanks(2);
  await TfDataServiceConfig.read(path, { waitForFileCreation: true });
  const odd = startRanks(4, { path, dispatchers: 2 });
  const error = await errorOf(odd.ranks[3] as Promise<void>);
  assert.match(
    error.message,
    /is the config of a service of 2 workers and 1 dispatchers .*compute rank 3 was started for one of 4/,
  );
  for (const stop of odd.stops) stop.abort();
  await Promise.allSettled(odd.ranks);
  stops[0]?.abort();
  await end;
});

test('a part that fails on rank 0 ends the service with its error, and removes the config', async () => {
  const failure = new HorovodError('ERR_HVD_DATA_FUNCTION', 'a test');
  const parts = {
    ...registeringParts([]),
    runDispatcher: async () => {
      throw failure;
    },
  };
  const { path, ranks } = startRanks(2, { parts });
  assert.equal(await errorOf(ranks[0] as Promise<void>), failure);
  assert.equal(existsSync(path), false);
  await ranks[1]?.catch((error: unknown) => assert.ok(HorovodError.is(error), String(error)));
});

test('workers that do not come are a time-out of rank 0', async () => {
  const { path, ranks } = startRanks(2, {
    timeout: 1,
    parts: { ...registeringParts([]), runWorker: ({ signal }) => aborted(signal) },
  });
  const error = await errorOf(ranks[0] as Promise<void>);
  assert.match(
    error.message,
    /^ERR_HVD_TIMEOUT: Timed out waiting for workers for dispatcher 0 to register\./,
  );
  assert.equal(existsSync(path), false);
});
