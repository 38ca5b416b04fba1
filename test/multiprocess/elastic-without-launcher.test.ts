// Elastic jobs that nobody has launched: the same command several times, with HOROVOD_RENDEZVOUS and HOROVOD_ELASTIC_MIN_NP. The process that
// comes first serves the store and decides who is in.

import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { JobView } from '../../src/observe/status/job-view.ts';
import { jobless } from '../support/foreign-launchers.ts';
import { fixturePath, repository } from '../support/repository.ts';

const patienceMs = 60_000;

interface Place {
  readonly generation: number;
  readonly rank: number;
  readonly size: number;
}

interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  output: string;
  /** The last generation in which it has trained, if it has said so. */
  readonly place: Place | undefined;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function startJob(t: TestContext, size: number, more: NodeJS.ProcessEnv = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-test-'));
  const file = join(folder, 'enough');
  const port = await freePort();
  const all: Started[] = [];
  const start = (): Started => {
    const child = spawn(process.execPath, [fixturePath('faults/elastic.ts'), file], {
      env: {
        ...jobless(),
        HOROVOD_RENDEZVOUS: `127.0.0.1:${port}`,
        HOROVOD_SIZE: String(size),
        HOROVOD_ELASTIC_MIN_NP: '1',
        HOROVOD_TIMEOUT_SECONDS: '60',
        ...more,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const started: Started = {
      child,
      ended: new Promise((resolve) => child.once('close', resolve)),
      output: '',
      get place() {
        const line = this.output.match(/^generation \{.*\}$/gm)?.at(-1);
        return line === undefined ? undefined : (JSON.parse(line.slice('generation '.length)) as Place);
      },
    };
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        started.output += text;
      });
    all.push(started);
    return started;
  };
  t.after(async () => {
    for (const { child } of all) child.kill('SIGKILL');
    await Promise.all(all.map(({ ended }) => ended));
    rmSync(folder, { recursive: true, force: true });
  });
  for (let each = 0; each < size; each++) start();
  const until = async (what: string, isSo: () => boolean) => {
    const deadline = performance.now() + patienceMs;
    while (!isSo()) {
      if (performance.now() > deadline)
        assert.fail(`${what} did not come.\n${all.map(({ output }) => output).join('\n---\n')}`);
      await sleep(5);
    }
  };
  return {
    start,
    until,
    /** Resolves with the processes that train in this generation, by rank. */
    async members(generation: number, expected: number): Promise<Started[]> {
      const here = () => all.filter(({ place }) => place?.generation === generation);
      await until(`generation ${generation} of ${expected}`, () => here().length === expected);
      return here().sort((a, b) => (a.place?.rank ?? 0) - (b.place?.rank ?? 0));
    },
    /** What `horovod status` shows of the job when it is so. */
    async shown(what: string, isSo: (view: JobView) => boolean): Promise<JobView> {
      const command = [join(repository, 'dist/cli/main.js'), 'status', '--json', '--once'];
      const deadline = performance.now() + patienceMs;
      for (;;) {
        const { stdout } = await promisify(execFile)(process.execPath, command);
        const { jobs } = JSON.parse(stdout) as { jobs: JobView[] };
        const own = jobs.find((job) => job.command.includes(folder));
        if (own !== undefined && isSo(own)) return own;
        if (performance.now() > deadline) assert.fail(`${what} is not shown: ${JSON.stringify(own)}`);
      }
    },
    finish: () => writeFileSync(file, ''),
  };
}

describe('an elastic job without a launcher', { concurrency: 2 }, () => {
  test('goes on without a rank that was killed, takes in a process that is started again, and finishes', async (t) => {
    const { start, members, until, shown, finish } = await startJob(t, 3);
    const [first, second] = (await members(1, 3)) as [Started, Started];
    second.child.kill('SIGKILL');
    await members(2, 2);
    const how = 'has ended: its connection was closed without a goodbye';
    await until('the report', () =>
      new RegExp(`rank 1 on \\S+ ${how}; 2 ranks continue after \\d+ ms, no steps repeated`).test(
        first.output,
      ),
    );
    start();
    const whole = await members(3, 3);
    await until('the report', () => /rank 2 on \S+ has joined; 3 ranks continue/.test(first.output));
    const { ranks, news } = await shown('generation 3', (view) => view.news?.generation === 3);
    assert.deepEqual([ranks.length, news?.resets, news?.standbys, news?.pause], [3, 2, 0, undefined]);
    const [lost, joined, ...more] = news?.lastResets ?? [];
    assert.match(lost?.what ?? '', new RegExp(`^rank 1 on \\S+ ${how}$`));
    assert.match(joined?.what ?? '', /^rank 2 on \S+ has joined$/);
    assert.deepEqual([lost?.size, joined?.size, more], [2, 3, []]);
    finish();
    assert.deepEqual(await Promise.all(whole.map(({ ended }) => ended)), [0, 0, 0]);
    assert.match(
      first.output,
      new RegExp(
        `the job has finished in spite of 1 lost rank: 2 resets, \\d+ ms altogether, no steps repeated\\.\\n {2}rank 1 on \\S+ ${how}`,
      ),
    );
  });

  test('ends with the process that serves the store', async (t) => {
    const { members } = await startJob(t, 3);
    const [first, ...others] = (await members(1, 3)) as [Started, Started, Started];
    first.child.kill('SIGKILL');
    for (const { ended } of others) assert.notEqual(await ended, 0);
    for (const { output } of others) assert.match(output, /caught \{.*"code":"ERR_HVD_PEER_LOST"/);
  });

  test('ends where fewer than the minimum are left for too long', async (t) => {
    const limits = { HOROVOD_ELASTIC_MIN_NP: '2', HOROVOD_ELASTIC_TIMEOUT: '1' };
    const { members } = await startJob(t, 2, limits);
    const [first, second] = (await members(1, 2)) as [Started, Started];
    second.child.kill('SIGKILL');
    assert.notEqual(await first.ended, 0);
    assert.match(first.output, /1 of at least 2 ranks are left: waiting for more/);
    assert.match(first.output, /caught \{.*"code":"ERR_HVD_TOO_FEW_RANKS"/);
    assert.match(first.output, /the job has failed: only 1 rank was available for 1 s/);
  });
});
