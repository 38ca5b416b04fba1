// What the waiting rank says of the one it waits for, and the flight records that are left: in one job, because every
// stall takes its time. HOROVOD_NATIVE chooses the transport, CI runs both.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { run } from '../../src/cli/main.ts';
import type { FlightDump } from '../../src/observe/flight-recorder/flight-dump.ts';
import { startFaultJob } from '../support/fault-job.ts';

async function report(...argv: string[]): Promise<{ exitCode: number; text: string }> {
  let text = '';
  const add = (piece: string) => {
    text += piece;
  };
  return { exitCode: await run(['flight-report', ...argv], { out: add, error: add }), text };
}

/** The dump of a rank, when it has one that was written for this reason. */
async function dumpOf(directory: string, rank: number, reason: string): Promise<FlightDump> {
  const path = join(directory, `rank-${rank}.json`);
  const deadline = performance.now() + 60_000;
  for (;;) {
    const dump = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as FlightDump) : undefined;
    if (dump?.reason === reason) return dump;
    assert.ok(performance.now() < deadline, `no dump of rank ${rank} for ${reason}, but for ${dump?.reason}`);
    await sleep(10);
  }
}

test('a stall warning says what the missing rank is doing, and the flight records name the culprit', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'horovod-stalls-'));
  const records = join(directory, 'records');
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const go = (word: string) => writeFileSync(join(directory, word), '');
  const env = { HOROVOD_STALL_CHECK_TIME_SECONDS: '0.5', HOROVOD_STRAGGLER_PERCENT: '0' };
  const flags = ['--flight-dir', records, '--stall-check-shutdown-time-seconds', '0'];
  const job = startFaultJob(t, 2, 'stalls.ts', { args: [directory], flags, env });
  await job.allSaid([0, 1], 'ready');

  await job.errorOutput(
    /rank 0: allreduce \(unnamed.* has waited \d+ s: rank 1 has not called it\. Rank 1 \(\S+, pid \d+\).* has been computing since \(CPU busy\).*horovod flight-report/,
  );
  go('busy');
  await job.errorOutput(
    /rank 0: allreduce "together" has waited.*Rank 1 .* finished allreduce \(number \d+\) \d+ s ago, at step 1, and has been sleeping since/,
  );
  const asked = await dumpOf(records, 1, 'asked');
  assert.equal(asked.step, 1);
  job.signal(1, 'SIGUSR2');
  const dump = await dumpOf(records, 1, 'signal');
  assert.deepEqual([dump.rank, dump.size, dump.pid], [1, 2, job.pid(1)]);
  const [gradients] = dump.records.filter(({ name }) => name === 'gradients');
  assert.deepEqual([gradients?.state, gradients?.shapes, gradients?.dtype], ['done', [[4]], 'float32']);
  assert.match(gradients?.callSite ?? '', /stalls\.(js|ts):\d+$/);
  go('asleep');

  await job.said(1, 'stoppable');
  job.signal(1, 'SIGSTOP');
  await job.errorOutput(/Rank 1 .* is stopped by a signal/);
  // A handler of Node would not run in this wait; the file that horovodrun touches is seen all the same.
  rmSync(join(records, 'rank-0.json'));
  job.run.child.kill('SIGUSR2');
  const blocked = await dumpOf(records, 0, 'asked');
  assert.equal(blocked.records.at(-1)?.state, 'pending');
  assert.match(blocked.records.at(-1)?.callSite ?? '', /stalls\.(js|ts):\d+$/);
  go('stopped');
  job.signal(1, 'SIGCONT');

  await job.said(1, 'mortal');
  job.signal(1, 'SIGKILL');
  assert.equal((await job.said(0, 'caught')).code, 'ERR_HVD_PEER_LOST');
  await job.ended();
  assert.match(
    job.run.stderr,
    new RegExp(`To see what each rank did last, run: (npx )?horovod flight-report ${records}`),
  );
  const lost = await dumpOf(records, 0, 'failure');
  assert.equal(lost.error?.rank, 1);

  const { exitCode, text } = await report(records);
  assert.equal(exitCode, 0, text);
  assert.match(text, /ERR_HVD_PEER_LOST: rank 1 .* was killed by SIGKILL\nCulprit: rank 1\./);
  assert.match(text, /^0 +\S+ +\d+ +failure +1 .*"last".*stalls\.(js|ts):\d+$/m);
  const { finding } = JSON.parse((await report('--json', records)).text) as {
    finding: { culprits: number[] };
  };
  assert.deepEqual(finding.culprits, [1]);
});
