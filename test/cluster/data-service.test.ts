// A data service on two hosts, and training processes on others: the config alone tells them where it is.

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Box, canUseBox, startBox } from '../support/box.ts';
import { runOnBox, startOnBox } from '../support/box-jobs.ts';
import { repository, sourcePath } from '../support/repository.ts';

const skip = canUseBox() ?? false;
const range = (length: number) => Array.from({ length }, (_, each) => each);
const env = { HOROVOD_DATA_THREADS: '1' };

interface Epoch {
  readonly ids: readonly number[];
  readonly batches: number;
  readonly pids: readonly number[];
}

describe('a data service on two hosts', { skip }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 4 });
  });
  after(() => box.close());

  for (const side of ['compute', 'training'] as const) {
    test(`serves trainers on two others, with dispatchers on the ${side} side`, async () => {
      const folder = join(box.shared, side);
      mkdirSync(folder);
      const path = join(folder, 'compute.json');
      const service = startOnBox(box, 'horovod', {
        hosts: 'host1:2,host2:2',
        args: ['compute-worker', path, '--dispatcher-side', side],
        cwd: repository,
        env,
      });
      const options = { count: 64, reuse: true, roundRobin: true, ends: true };
      const training = await runOnBox(box, sourcePath('data/service-trainer.ts'), {
        from: 'host3',
        hosts: 'host3:1,host4:1',
        args: [path, JSON.stringify(options)],
        cwd: repository,
        env,
      });
      assert.equal(training.exitCode, 0, `${training.stdout}\n${training.stderr}`);
      const [a, b] = training.ranks.map(
        ({ stdout }) => JSON.parse(/epoch (\{.*\})/.exec(stdout)?.[1] ?? '{}') as Epoch,
      ) as [Epoch, Epoch];
      assert.deepEqual(
        [...a.ids, ...b.ids].sort((x, y) => x - y),
        range(64),
      );
      assert.equal(a.batches, b.batches);
      const { exitCode, stdout, stderr } = await service.endedWithin(60_000);
      assert.equal(exitCode, 0, `${stdout}\n${stderr}`);
      assert.match(stdout, /the data service is ready: 4 workers/);
      assert.deepEqual(readdirSync(folder), []);
      await box.assertNothingLeft();
    });
  }
});
