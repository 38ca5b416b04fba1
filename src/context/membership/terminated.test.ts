// worker.terminate() of a thread whose ranks are opening a process set. A thread that is terminated runs none of its code
// any more: what it held is given back by the addon and by Node, and the process goes on.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { native } from '../../../test/support/hierarchical-world.ts';
import { until } from '../../../test/support/transport-world.ts';

const script = new URL('../../../test/support/opening-worker.js', import.meta.url);
const skipNative = native.built ? false : native.reason;

/** Memory files and sockets of this process, and its threads. */
function held(): { files: number; threads: number } {
  return {
    files: readdirSync('/proc/self/fd').length,
    threads: readdirSync('/proc/self/task').length,
  };
}

async function terminateAt(world: string, steps: number, isAfter: boolean): Promise<void> {
  const worker = new Worker(script, { workerData: { world, steps, isAfter } });
  const [said] = await once(worker, 'message');
  assert.equal(said, 'here');
  await worker.terminate();
}

for (const [world, skip] of [
  ['shm', skipNative],
  ['portable', false],
  ['tcp', skipNative],
] as const) {
  describe(`a thread that is terminated while its ranks open a process set on ${world}`, { skip }, () => {
    test('ends at any point: the process goes on, and nothing is left', async () => {
      await terminateAt(world, 0, false);
      const before = held();
      for (const steps of [0, 1, 2, 3, 5, 8]) await terminateAt(world, steps, true);
      await until(
        () => {
          const now = held();
          return now.files <= before.files && now.threads <= before.threads;
        },
        `descriptors and threads are what they were: ${JSON.stringify(before)}`,
      );
    });
  });
}
