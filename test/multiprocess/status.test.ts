// `horovod status` asked from a third process, while ranks sit in blocking collectives and never see their event loop.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, type TestContext, test } from 'node:test';
import { findBlocks } from '../../src/observe/status/find-jobs.ts';
import { type JobView, readBlock } from '../../src/observe/status/job-view.ts';
import { type HorovodrunProcess, startHorovodrun } from '../../src/testing/spawn-ranks.ts';
import { loadNative } from '../../src/transport/native/load.ts';
import { assertEnded } from '../support/fault-job.ts';
import { fixturePath, repository } from '../support/repository.ts';

const fixture = fixturePath('status/loop.ts');
const command = join(repository, 'dist/cli/main.js');
const patienceMs = 45_000;

interface LoopJob {
  readonly run: HorovodrunProcess;
  /** Waits until the command shows this job so; undefined: not at all. */
  shown(what: string, isSo: (job: JobView | undefined) => boolean): Promise<JobView | undefined>;
  /** Is this one's command line. */
  isOwn(job: JobView): boolean;
  /** The last rank comes to the collective that the others wait in. */
  letGo(): void;
  stop(): void;
}

/** Two ranks; the last one stays away from the end of the first step until it is let go. */
function startLoop(t: TestContext, native: boolean, flags: readonly string[] = []): LoopJob {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-status-'));
  const [stop, late] = [join(folder, 'stop'), join(folder, 'late')];
  writeFileSync(late, '');
  const nvidiaSmi = join(folder, 'nvidia-smi');
  writeFileSync(nvidiaSmi, '#!/bin/sh\necho "0, Fake GPU, 87, 12288, 40960"\n');
  chmodSync(nvidiaSmi, 0o755);
  const env = { PATH: `${folder}:${process.env['PATH']}` };
  const run = startHorovodrun(['-np', '2', ...flags, '--', fixture, stop, late], { native, env });
  const looks: JobView[][] = [];
  let onLook = () => {};
  let asker = ask();
  function ask(): ChildProcess {
    const child = spawn(process.execPath, [command, 'status', '--json', '--watch', '0.1'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    createInterface({ input: child.stdout }).on('line', (line) => {
      looks.push((JSON.parse(line) as { jobs: JobView[] }).jobs);
      onLook();
    });
    // Where no job runs yet, or none any more, it ends.
    child.once('exit', () => {
      asker = ask();
    });
    return child;
  }
  t.after(async () => {
    asker.removeAllListeners('exit');
    asker.kill('SIGKILL');
    run.child.kill('SIGKILL');
    await run.ended;
    rmSync(folder, { recursive: true, force: true });
  });
  const isOwn = (job: JobView) => job.command.includes(folder);
  return {
    run,
    isOwn,
    shown: (what, isSo) =>
      new Promise((resolve, reject) => {
        const fail = () => {
          const seen = JSON.stringify(looks.at(-1), undefined, 1);
          reject(new Error(`${what}: never shown.\n${seen}\n${run.stdout}\n${run.stderr}`));
        };
        const deadline = setTimeout(fail, patienceMs);
        onLook = () => {
          const job = looks.at(-1)?.find(isOwn);
          if (!isSo(job)) return;
          clearTimeout(deadline);
          onLook = () => {};
          resolve(job);
        };
      }),
    letGo: () => rmSync(late),
    stop: () => writeFileSync(stop, ''),
  };
}

function isWaiting(job: JobView | undefined): boolean {
  const wait = job?.ranks[0]?.status?.pending[0];
  return wait?.label === 'allreduce "stop"' && String(wait.missing) === '1';
}

function isTraining(job: JobView | undefined): boolean {
  return (
    job?.ranks.every(
      ({ status }) => status !== undefined && status.step > 3 && status.rates.samplesPerSecond > 0,
    ) === true
  );
}

describe('horovod status', { concurrency: 3 }, () => {
  for (const native of [true, false]) {
    const skip = native && !loadNative().built ? 'the native addon is not built' : false;
    test(`shows which rank waits for which, and that a killed rank is gone: ${native ? 'native' : 'portable'}`, {
      skip,
    }, async (t) => {
      const job = startLoop(t, native);
      const waiting = await job.shown('rank 0 waits for rank 1', isWaiting);
      assert.deepEqual(
        waiting?.ranks.map(({ rank, presence, isLocal, status }) => [rank, presence, isLocal, status?.step]),
        [
          [0, 'here', true, 1],
          // Its page may be of the time before the step.
          [1, 'here', true, waiting?.ranks[1]?.status?.step],
        ],
      );
      job.letGo();
      const training = await job.shown('both train', isTraining);
      const status = training?.ranks[1]?.status;
      assert.ok(
        (status?.rssBytes ?? 0) > 1e7 &&
          (status?.bytes ?? 0) > 0 &&
          status?.samples === (status?.step ?? 0) * 32,
      );
      assert.deepEqual(status?.metrics, [
        ['loss', -1],
        ['broken', 'NaN'],
      ]);
      process.kill(status?.pid as number, 'SIGKILL');
      await job.shown('rank 1 is lost, or all is over', (view) => view?.ranks[1]?.presence !== 'here');
      assert.equal((await job.run.ended).exitCode, 137, job.run.stderr);
      await job.shown('nothing any more', (view) => view === undefined);
      for (const { status: last } of training?.ranks ?? []) await assertEnded(last?.pid as number);
    });
  }

  test('shows ranks of another host, whose status comes through the host watch', async (t) => {
    const job = startLoop(t, loadNative().built, ['-H', 'localhost:1,127.0.0.1:1']);
    job.letGo();
    await job.shown('both train', isTraining);
    // Both hosts are this machine: the command has looked into both blocks. Here is what each of them knows alone.
    const views = () =>
      findBlocks('/nowhere')
        .blocks.flatMap((block) => readBlock(block) ?? [])
        .filter(job.isOwn);
    const knowsOther = (view: JobView) =>
      view.ranks.some(
        ({ isLocal, presence, status }) => !isLocal && presence === 'here' && (status?.step ?? 0) > 3,
      ) && view.hosts.filter(({ processors }) => processors?.busyCores !== undefined).length === 2;
    const deadline = performance.now() + patienceMs;
    while (!(views().length === 2 && views().every(knowsOther))) {
      assert.ok(performance.now() < deadline, JSON.stringify(views(), undefined, 1));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const hosts = views().map((view) =>
      view.ranks.map(({ status, isLocal }) => `${status?.host} ${isLocal}`).join(', '),
    );
    assert.deepEqual(hosts.sort(), ['localhost false, 127.0.0.1 true', 'localhost true, 127.0.0.1 false']);
    for (const { hosts: uses, ranks } of views()) {
      assert.deepEqual(
        uses.map(({ host, gpus }) => [host, gpus[0]?.name, gpus[0]?.busyShare]),
        ['127.0.0.1', 'localhost'].map((name) => [name, 'Fake GPU', 0.87]),
      );
      for (const { memory } of uses)
        assert.ok(memory !== undefined && memory.availableBytes < memory.totalBytes);
      for (const { status } of ranks) assert.ok((status?.busyCores ?? 0) > 0, JSON.stringify(status));
    }
    job.stop();
    assert.equal((await job.run.ended).exitCode, 0, job.run.stderr);
  });
});
