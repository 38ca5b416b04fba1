// Exactly once under kills: an elastic job trains for 20 epochs on data of a service, while compute workers and trainers are killed, and
// with them registry and dispatchers, on either side. Of every epoch each sample was committed once.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { startHorovodrun } from '../../src/testing/spawn-ranks.ts';
import { endedWithin, faultFixture } from '../support/fault-job.ts';
import { randomFrom } from '../support/late-links.ts';
import { repository } from '../support/repository.ts';
import { until } from '../support/transport-world.ts';

const command = join(repository, 'dist/cli/main.js');
/** horovodrun would do that. */
const loader = pathToFileURL(join(repository, 'dist/launch/typescript/register.js'));
const env = { HOROVOD_DATA_THREADS: '1' };
const [epochs, samples] = [20, 60];
/** Before these epochs a compute process is killed: that with the registry, or any. */
const pauses = [
  [1, 'registry'],
  [7, 'any'],
  [14, 'any'],
] as const;

for (const side of ['compute', 'training'] as const) {
  test(`20 epochs with dispatchers on the ${side} side: what is killed costs no sample and repeats none`, async (t) => {
    const random = randomFrom(side === 'compute' ? 1 : 2);
    const folder = mkdtempSync(join(tmpdir(), 'horovod-data-service-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'compute.json');
    const service = startHorovodrun(
      ['--keep-going', '-np', '3', 'horovod', 'compute-worker', '--dispatcher-side', side, path],
      { env, cwd: repository },
    );
    t.after(async () => {
      service.child.kill('SIGKILL');
      await service.ended;
    });
    await service.waitForOutput(/the data service is ready/);
    // Rank 0, which has the dispatcher on the training side, and another one.
    const deaths = `0:${4 + Math.floor(2 * random())},1:${9 + Math.floor(2 * random())}`;
    const flags = ['-np', '2', '--min-np', '1', '--blacklist-cooldown-range', '0.1', '0.2'];
    const training = startHorovodrun(
      [
        ...flags,
        '--',
        faultFixture('elastic-data-service.ts'),
        path,
        folder,
        ...[String(epochs), deaths, pauses.map(([epoch]) => epoch).join()],
      ],
      { env, cwd: repository },
    );
    t.after(async () => {
      training.child.kill('SIGKILL');
      await training.ended;
    });
    const joined: ChildProcess[] = [];
    for (const [epoch, what] of pauses) {
      const [, pid] = await training.waitForOutput(new RegExp(`paused \\{"value":${epoch},"pid":(\\d+)`));
      if (what === 'any') {
        const child = joinService(t, path);
        joined.push(child);
        await until(
          () => workersOf(path).workers.some((each) => each.pid === child.pid),
          'a worker has joined',
        );
      }
      const known = workersOf(path);
      const pids = what === 'registry' ? [known.pid] : known.workers.map((each) => each.pid);
      process.kill(pids[Math.floor(random() * pids.length)] as number, 'SIGKILL');
      process.kill(Number(pid), 'SIGUSR2');
    }
    const { exitCode } = await endedWithin(training);
    const transcript = `${training.stdout}\n${training.stderr}\n${service.stdout}\n${service.stderr}`;
    assert.equal(exitCode, 0, transcript);
    assert.match(service.stdout, /the registry of the data service was lost/);
    assert.equal(readdirSync(folder).filter((name) => name.startsWith('death')).length, 2, transcript);
    const said = /:used (\{.*\})$/m.exec(training.stdout)?.[1] ?? '{}';
    const { used } = (JSON.parse(said) as { value: { used: number[][] } }).value;
    assert.equal(used.length, epochs);
    for (const [epoch, ids] of used.entries())
      assert.deepEqual(
        ids.sort((a, b) => a - b),
        Array.from({ length: samples }, (_, id) => id),
        `epoch ${epoch}`,
      );
    await service.ended;
    for (const child of joined) {
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      assert.ok(child.exitCode === 0 || child.signalCode === 'SIGKILL', transcript);
    }
  });
}

interface Known {
  readonly pid: number;
  readonly workers: readonly { readonly pid: number }[];
}

/** Where registry and workers run. */
function workersOf(path: string): Known {
  const { stdout, stderr, status } = spawnSync(process.execPath, [command, 'status', path, '--json'], {
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
  return (JSON.parse(stdout) as { service: Known }).service;
}

function joinService(t: TestContext, path: string): ChildProcess {
  const child = spawn(process.execPath, [command, 'compute-worker', '--join', path], {
    cwd: repository,
    env: { ...process.env, ...env, NODE_OPTIONS: `--import ${loader}` },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  return child;
}
