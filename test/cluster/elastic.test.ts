// Elastic jobs on several hosts: hosts that are added, crash, freeze, come back and are removed, while the others train.

import assert from 'node:assert/strict';
import { chmodSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { FlightDump } from '../../src/observe/flight-recorder/flight-dump.ts';
import { type Box, type BoxProcess, canUseBox, startBox } from '../support/box.ts';
import { fixturePath, repository } from '../support/repository.ts';

const skip = canUseBox() ?? false;
const patienceMs = 90_000;

interface ElasticBoxJob {
  readonly job: BoxProcess;
  /** What the discovery script prints from now on. */
  list(...hosts: readonly string[]): void;
  /** Resolves when the launcher has said so. */
  says(pattern: RegExp): Promise<void>;
  /** Puts a file into the folder that all hosts share, in one piece. */
  write(name: string, text: string): void;
  /** Lets the ranks finish, and waits for the end of the job. */
  finish(): Promise<void>;
}

function startElastic(
  box: Box,
  np: number,
  hosts: readonly string[],
  flags: readonly string[] = [],
  way = '',
): ElasticBoxJob {
  const place = (name: string) => join(box.shared, name);
  const write = (name: string, text: string) => {
    writeFileSync(place(`${name}.new`), text);
    renameSync(place(`${name}.new`), place(name));
  };
  const list = (...names: readonly string[]) => write('hosts', names.map((name) => `${name}\n`).join(''));
  list(...hosts);
  writeFileSync(place('hosts.sh'), `#!/bin/sh\ncat ${place('hosts')}\n`);
  chmodSync(place('hosts.sh'), 0o755);
  const launcher = join(repository, 'dist/launch/main.js');
  const script = [fixturePath('faults/elastic.ts'), place('enough'), way];
  const all = ['-np', String(np), '--host-discovery-script', place('hosts.sh'), ...flags, '--', ...script];
  const job = box.start('host1', [process.execPath, launcher, ...all], {
    env: { HOROVOD_TIMEOUT_SECONDS: '60' },
  });
  return {
    job,
    list,
    write,
    async says(pattern) {
      await job.waitForOutput(pattern, 'stderr', patienceMs);
    },
    async finish() {
      write('enough', '');
      const { exitCode, stdout, stderr } = await job.endedWithin(patienceMs);
      assert.equal(exitCode, 0, `${stdout}\n${stderr}`);
    },
  };
}

describe('an elastic job on several hosts', { skip, concurrency: 3 }, () => {
  test('hosts are added, lost, found again and removed, and the others go on (test_fault_tolerance_hosts_added_and_removed, test_fault_tolerance_hosts_remove_and_add)', async () => {
    await using box = await startBox({ hosts: 3 });
    const { job, list, says, finish } = startElastic(box, 2, ['host1', 'host2'], ['--min-np', '1']);
    await job.waitForOutput(/"generation":1,.*"size":2/, 'stdout', patienceMs);
    list('host1', 'host2', 'host3:2');
    await says(/rank 3 on host3 has joined; 4 ranks continue after \d+ ms, .* \(generation [23]\)\./);
    await box.crash('host2');
    await says(/host2 was lost: no message from its agent for 5 s/);
    await says(/rank 1 on host2 was lost with host2: .*; 3 ranks continue/);
    await box.boot('host2');
    await says(/rank [13] on host2 has joined; 4 ranks continue/);
    list('host1', 'host2', 'host3:1');
    await says(
      /rank \d on host3 was given up, because its host has no slot for it any more; 3 ranks continue/,
    );
    list('host1', 'host2');
    await says(/rank \d on host3 was given up, .*; 2 ranks continue/);
    await finish();
    await box.assertNothingLeft();
  });

  test('a frozen host is lost; when it goes on, it is out, and its workers end', async () => {
    await using box = await startBox({ hosts: 2 });
    const { job, list, says, finish } = startElastic(box, 2, ['host1', 'host2'], ['--min-np', '1']);
    await job.waitForOutput(/"generation":1,.*"size":2/, 'stdout', patienceMs);
    await box.freeze('host2');
    await says(/rank 1 on host2 was lost with host2: .*; 1 rank continues/);
    list('host1');
    await box.thaw('host2');
    await finish();
    await box.assertNothingLeft();
  });

  test('a rank of another host hangs, and is replaced; if horovodrun is killed, all ranks end, and those that are being started', async () => {
    await using box = await startBox({ hosts: 2 });
    const records = join(box.shared, 'records');
    const flags = ['--min-np', '2', '--hang-timeout', '1', '--flight-dir', records];
    const { job, says, write } = startElastic(box, 2, ['host1', 'host2'], flags, 'one');
    const [, pid] = await job.waitForOutput(/"generation":1,.*"rank":1,.*"pid":(\d+)/, 'stdout', patienceMs);
    write('enough', `${pid} hangs`);
    await says(
      /rank 1 on host2 was ended by horovodrun .* it used no processor for longer than --hang-timeout/,
    );
    // Its agent has asked for it.
    const { reason } = JSON.parse(readFileSync(join(records, 'rank-1.g1.json'), 'utf8')) as FlightDump;
    assert.equal(reason, 'asked');
    await job.waitForOutput(/"generation":2,.*"size":2/, 'stdout', patienceMs);
    const ranks = box.processesOn('host2').filter(({ command }) => command.includes('elastic.'));
    for (const { pid } of ranks) process.kill(pid, 'SIGKILL');
    await says(/1 rank left, and --min-np is 2: waiting for more/);
    job.kill('SIGKILL');
    await job.endedWithin(patienceMs);
    await box.assertNothingLeft();
  });

  test('a host that cannot be reached costs nothing', async () => {
    await using box = await startBox({ hosts: 1 });
    const { job, says, finish } = startElastic(box, 1, ['host1', 'no-such-host.invalid'], ['--min-np', '1']);
    await says(/no-such-host\.invalid cannot be used \(name\): /);
    await job.waitForOutput(/"generation":1,.*"size":1/, 'stdout', patienceMs);
    await finish();
    await box.assertNothingLeft();
  });

  test('two hosts do not hear each other, and the launcher hears both: one of them goes, and comes back', async () => {
    await using box = await startBox({ hosts: 3 });
    const { job, says, finish } = startElastic(box, 3, ['host1', 'host2', 'host3'], ['--min-np', '1']);
    await job.waitForOutput(/"generation":1,.*"size":3/, 'stdout', patienceMs);
    await box.block('host2', 'host3', 'one-way');
    await says(/rank \d on host([23]) was .*; 2 ranks continue after \d+ ms, .* \(generation \d+\)/);
    await box.unblock();
    await says(/rank \d on host[23] has joined; 3 ranks continue/);
    await finish();
    await box.assertNothingLeft();
  });

  test('a host crashes while the state travels to it over a slow line: the others keep theirs and go on', async () => {
    await using box = await startBox({ hosts: 3 });
    const { job, list, says, finish } = startElastic(box, 2, ['host1', 'host2'], ['--min-np', '1'], 'large');
    const [, sum] = await job.waitForOutput(/"generation":1,.*"sum":([\d.]+)/, 'stdout', patienceMs);
    // 16 MiB take 7 s.
    await box.rate('host3', '20mbit');
    list('host1', 'host2', 'host3');
    await job.waitForOutput(/synchronizing \{"generation":2\}/, 'stdout', patienceMs);
    await box.crash('host3');
    await says(/host3 was lost/);
    await job.waitForOutput(/"generation":3,.*"size":2/, 'stdout', patienceMs);
    await finish();
    const sums = [...job.stdout.matchAll(/"generation":[13],.*"sum":([\d.]+)/g)].map((match) => match[1]);
    assert.deepEqual(sums, [sum, sum, sum, sum], job.stdout);
    await box.assertNothingLeft();
  });
});
