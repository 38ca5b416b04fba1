// Timelines of real ranks: all of them in one file, on and off, by setting and by call, and whole whatever happens to the
// processes. HOROVOD_NATIVE chooses the transport, and CI runs this file with both.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { spawnRanks, startHorovodrun } from '../../src/testing/spawn-ranks.ts';
import { type CheckedEvent, checkTrace } from '../support/check-trace.ts';
import { fixturePath } from '../support/repository.ts';
import { until } from '../support/transport-world.ts';

const fixture = (name: string) => fixturePath(`timeline/${name}`);

function directoryOf(t: { after(fn: () => void): void }): string {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-timelines-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

const ranksOf = (events: readonly CheckedEvent[], name: string) =>
  [...new Set(events.filter((event) => event.name === name).map(({ pid }) => pid - 1))].sort();
const has = (events: readonly CheckedEvent[], name: string) => events.some((event) => event.name === name);

test('timelines go on and off, by flag and by call, with all ranks or one', async (t) => {
  const directory = directoryOf(t);
  const flags = ['--timeline-filename', 'by-setting.json', '--timeline-mark-cycles'];
  const job = await spawnRanks(2, fixture('rounds.ts'), { args: [directory], flags, cwd: directory });
  assert.equal(job.exitCode, 0, job.stdout + job.stderr);
  const [first] = job.ranks.map(({ stdout }) => JSON.parse(stdout) as unknown);
  assert.deepEqual(first, { codes: ['ERR_HVD_TIMELINE', 'ERR_HVD_SHUT_DOWN'] });

  const bySetting = checkTrace(join(directory, 'by-setting.json'));
  assert.deepEqual(ranksOf(bySetting, 'by-setting'), [0, 1]);
  assert.ok(has(bySetting, 'CYCLE_START'));
  assert.ok(!has(bySetting, 'all'));

  const all = checkTrace(join(directory, 'all.json'));
  for (const name of ['all', 'all.b', 'allreduce.noname', 'allgather.noname', 'CYCLE_START', 'step 2']) {
    assert.deepEqual(ranksOf(all, name), [0, 1], name);
  }
  for (const name of ['QUEUE', 'NEGOTIATE_ALLREDUCE', 'ALLREDUCE', 'NEGOTIATE_BROADCAST', 'BROADCAST']) {
    assert.ok(has(all, name), name);
  }
  assert.deepEqual(
    all
      .filter(({ name }) => name === 'process_name')
      .map(({ args }) => String(args?.['name']).replace(/\(.*/, '')),
    ['horovod timeline', 'rank 0 ', 'rank 1 '],
  );
  // Both ranks were in the same operation at the same time: their clocks agree.
  const [one, other] = all.filter(({ name }) => name === 'all') as [CheckedEvent, CheckedEvent];
  assert.ok(Math.max(one.ts, other.ts) < Math.min(one.ts + (one.dur ?? 0), other.ts + (other.dur ?? 0)));

  const alone = checkTrace(join(directory, 'alone.json'));
  assert.deepEqual(ranksOf(alone, 'alone'), [0]);
  assert.ok(!has(alone, 'CYCLE_START'));
  assert.deepEqual(ranksOf(checkTrace(join(directory, 'last.json')), 'last'), [0, 1]);
});

test('a timeline file of the settings that cannot be written is one warning, and training continues', async (t) => {
  const directory = directoryOf(t);
  const flags = ['--timeline-filename', '/nonexistent/trace.json'];
  const job = await spawnRanks(2, fixture('rounds.ts'), { args: [directory], flags });
  assert.equal(job.exitCode, 0, job.stdout + job.stderr);
  const told = (job.stderr.match(/cannot write the timeline \/nonexistent\/trace\.json/g) ?? []).length;
  assert.equal(told, 1, job.stderr);
});

for (const victims of ['rank 0', 'the whole job'] as const) {
  test(`the file is whole after SIGKILL of ${victims}`, async (t) => {
    const file = join(directoryOf(t), 'trace.json');
    const run = startHorovodrun(['-np', '2', '--timeline-filename', file, '--', fixture('busy.ts')]);
    t.after(() => run.child.kill('SIGKILL'));
    await run.waitForOutput(/\[0\]<stdout>:busy/);
    const pids = [...run.stdout.matchAll(/^\[(\d)\]<stdout>:\{"pid":(\d+)\}/gm)]
      .sort((a, b) => Number(a[1]) - Number(b[1]))
      .map((found) => Number(found[2]));
    assert.equal(pids.length, 2);
    // Rank 0 writes from a thread that takes its time.
    await until(() => readFileSync(file).length > 100_000, 'a file with many events');
    for (const pid of victims === 'rank 0' ? pids.slice(0, 1) : pids) process.kill(pid, 'SIGKILL');
    await run.ended;
    const events = checkTrace(file);
    assert.ok(events.length > 20, readFileSync(file, 'utf8').slice(0, 500));
  });
}
