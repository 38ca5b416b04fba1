// Datasets in whole jobs: every sample is used exactly once in an epoch, although ranks are killed and their number changes.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { writeTfRecords } from '../../src/data/tfrecord-writer.ts';
import { findBlocks } from '../../src/observe/status/find-jobs.ts';
import { readJobs } from '../../src/observe/status/job-view.ts';
import { spawnRanks, startHorovodrun } from '../../src/testing/spawn-ranks.ts';
import { checkTrace } from '../support/check-trace.ts';
import { startFaultJob } from '../support/fault-job.ts';
import { fixturePath, sourcePath } from '../support/repository.ts';
import { until } from '../support/transport-world.ts';

const range = (length: number) => Array.from({ length }, (_, each) => each);
const sorted = (list: readonly number[]) => [...list].sort((a, b) => a - b);

function temporaryFolder(t: { after(fn: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('a job that was killed in mid-epoch resumes with other numbers of ranks, and every sample is used once', async (t) => {
  const folder = temporaryFolder(t);
  const records = range(150).map((id) => ({ id: [id] }));
  await writeTfRecords(records, join(folder, 'train-{shard}.tfrecord'), { shards: 3, index: false });
  const script = sourcePath('data/resume.ts');
  const env = { HOROVOD_DATA_THREADS: '1' };
  const killed = await spawnRanks(2, script, { args: [folder, '1', '5'], env });
  assert.notEqual(killed.exitCode, 0);
  const again = await spawnRanks(3, script, { args: [folder, '2', '8'], env });
  assert.notEqual(again.exitCode, 0);
  const last = await spawnRanks(1, script, { args: [folder], env });
  assert.equal(last.exitCode, 0, last.stderr);
  const { used, state } = JSON.parse(readFileSync(join(folder, 'checkpoint.json'), 'utf8'));
  assert.deepEqual(used.map(sorted), [range(150), range(150)]);
  assert.equal(state.lanes, 16);
});

for (const source of ['files', 'module']) {
  test(`a killed job resumes in ${source} that nobody has counted, with other numbers of ranks, and every sample is used once`, async (t) => {
    const folder = temporaryFolder(t);
    for (const part of range(6)) {
      const ids = range(120).filter((id) => id % 6 === part && (part !== 5 || id < 60));
      writeFileSync(join(folder, `${part}.txt`), ids.map((id) => `${id}\n`).join(''));
    }
    const script = sourcePath('data/resume-parts.ts');
    const env = { HOROVOD_DATA_THREADS: '1' };
    const killed = await spawnRanks(2, script, { args: [folder, source, '1', '4'], env });
    assert.notEqual(killed.exitCode, 0);
    const again = await spawnRanks(3, script, { args: [folder, source, '2', '3'], env });
    assert.notEqual(again.exitCode, 0);
    const last = await spawnRanks(1, script, { args: [folder, source], env });
    assert.equal(last.exitCode, 0, last.stderr);
    const { used } = JSON.parse(readFileSync(join(folder, 'checkpoint.json'), 'utf8'));
    assert.deepEqual(
      sorted(used),
      range(120).filter((id) => id % 6 !== 5 || id < 60),
    );
  });
}

test('an elastic job that loses a rank uses every sample of its datasets once', async (t) => {
  const folder = temporaryFolder(t);
  const { run, said, ended } = startFaultJob(t, 3, 'elastic-data.ts', {
    args: [folder],
    flags: ['--min-np', '1', '--blacklist-cooldown-range', '0.1', '0.2'],
  });
  const { value } = await said(0, 'used');
  assert.equal((await ended()).exitCode, 0, `${run.stdout}\n${run.stderr}`);
  const { used, odds } = value as { used: number[][]; odds: number[] };
  assert.deepEqual(used.map(sorted), [range(101), range(101)]);
  assert.ok(odds.length > 100);
  assert.equal(new Set(odds).size, odds.length);
  assert.ok(odds.every((each) => each % 2 === 1));
});

test('a rank that waits for data says so, and which stage is to blame, in its status and in the timeline', async (t) => {
  const folder = temporaryFolder(t);
  const [stop, trace] = [join(folder, 'stop'), join(folder, 'trace.json')];
  const args = ['-np', '2', '--timeline-filename', trace, '--', fixturePath('data/starved.ts'), stop];
  const run = startHorovodrun(args, { env: { HOROVOD_DATA_THREADS: '1' } });
  t.after(() => run.child.kill('SIGKILL'));
  // The other rank works ahead while it waits for this one, and then has its data in time.
  const starved = () => {
    const job = readJobs(findBlocks('/nowhere').blocks).find(({ command }) => command.includes(stop));
    const data = job?.ranks.map(({ status }) => status?.data) ?? [];
    return data.every((each) => each !== undefined) ? data.find(({ share }) => share > 0.3) : undefined;
  };
  await until(() => starved() !== undefined, 'a rank is starved');
  const data = starved();
  assert.ok((data?.starvedMs ?? -1) >= 0, JSON.stringify(data));
  assert.match(data?.advice ?? '', /^map\(slowly\) is the busiest stage \(\d+ %\)/);
  writeFileSync(stop, '');
  assert.equal((await run.ended).exitCode, 0, run.stderr);
  const waits = checkTrace(trace).filter(({ name }) => name === 'DATA_WAIT');
  assert.deepEqual([...new Set(waits.map(({ pid }) => pid - 1))].sort(), [0, 1]);
  assert.ok(waits.every(({ dur = 0 }) => dur >= 50));
});
