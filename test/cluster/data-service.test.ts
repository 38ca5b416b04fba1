// A data service on two hosts, and training processes on others: the config alone tells them where it is.

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type Box, canUseBox, startBox } from '../support/box.ts';
import { runOnBox, startOnBox } from '../support/box-jobs.ts';
import { repository, sourcePath } from '../support/repository.ts';

const command = join(repository, 'dist/cli/main.js');
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

  test('goes on when the host of its registry and its dispatcher is cut off, and takes it back later', async () => {
    const path = join(box.shared, 'cut.json');
    const loader = pathToFileURL(join(repository, 'dist/launch/typescript/register.js'));
    const worker = (host: string, rank: string) =>
      box.start(host, [process.execPath, command, 'compute-worker', '--rank', rank, '--size', '2', path], {
        cwd: repository,
        env: { ...env, NODE_OPTIONS: `--import ${loader}` },
      });
    const workers = [worker('host1', '0'), worker('host2', '1')];
    const training = startOnBox(box, sourcePath('data/service-trainer.ts'), {
      from: 'host3',
      hosts: 'host3:1',
      args: [path, JSON.stringify({ count: 400, epochs: 2, pauseAfter: 3, ends: true })],
      cwd: repository,
      env,
    });
    const [, paused = ''] = await training.waitForOutput(/paused (\d+)/);
    await box.cut('host1');
    await box.exec('host3', ['kill', '-USR1', paused]);
    await training.waitForOutput(/epoch \{"epoch":0/);
    await workers[1]?.waitForOutput(
      /the registry of the data service was lost; this process runs the next one/,
    );
    await box.heal('host1');
    const { exitCode, stdout, stderr } = await training.endedWithin(120_000);
    assert.equal(exitCode, 0, `${stdout}\n${stderr}\n${workers.map((each) => each.stdout + each.stderr)}`);
    const epochs = [...stdout.matchAll(/epoch (\{.*\})$/gm)].map(
      (match) => JSON.parse(match[1] as string) as Epoch,
    );
    assert.equal(epochs.length, 2);
    for (const { ids } of epochs)
      assert.deepEqual(
        [...ids].sort((x, y) => x - y),
        range(400),
      );
    for (const each of workers) {
      const ended = await each.endedWithin(60_000);
      assert.equal(ended.exitCode, 0, `${ended.stdout}\n${ended.stderr}`);
    }
    await box.assertNothingLeft();
  });
});
