// Data services as whole jobs: a compute job and training jobs, which find it by its config. Each command line of the documents is one.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type HorovodrunProcess, spawnRanks, startHorovodrun } from '../../src/testing/spawn-ranks.ts';
import { repository, sourcePath } from '../support/repository.ts';

const command = join(repository, 'dist/cli/main.js');
const trainer = sourcePath('data/service-trainer.ts');
const range = (length: number) => Array.from({ length }, (_, each) => each);
const sorted = (list: readonly number[]) => [...list].sort((a, b) => a - b);
const env = { HOROVOD_DATA_THREADS: '1' };

interface Epoch {
  readonly epoch: number;
  readonly ids: readonly number[];
  readonly batches: number;
  readonly pids: readonly number[];
}

interface Service {
  readonly path: string;
  readonly folder: string;
  readonly run: HorovodrunProcess;
}

/** A compute job with these flags of horovodrun and of compute-worker, which come after the file. */
function startService(
  t: TestContext,
  np: number,
  own: readonly string[] = [],
  flags: readonly string[] = [],
): Service {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-data-service-'));
  const path = join(folder, 'compute.json');
  const run = startHorovodrun([...flags, '-np', String(np), 'horovod', 'compute-worker', path, ...own], {
    env,
    cwd: repository,
  });
  t.after(async () => {
    run.child.kill('SIGTERM');
    await run.ended;
    rmSync(folder, { recursive: true });
  });
  return { path, folder, run };
}

async function train(np: number, path: string, options: object): Promise<Epoch[][]> {
  const result = await spawnRanks(np, trainer, { args: [path, JSON.stringify(options)], env });
  assert.equal(result.exitCode, 0, `${result.stdout}\n${result.stderr}`);
  return result.ranks.map(({ stdout }) => epochsOf(stdout));
}

function epochsOf(stdout: string): Epoch[] {
  return [...stdout.matchAll(/epoch (\{.*\})$/gm)].map((match) => JSON.parse(match[1] as string) as Epoch);
}

function status(path: string): string {
  const {
    stdout,
    stderr,
    status: code,
  } = spawnSync(process.execPath, [command, 'status', path], {
    encoding: 'utf8',
  });
  assert.equal(code, 0, stderr);
  return stdout;
}

async function endedWell({ run, folder }: Service): Promise<void> {
  const { exitCode } = await run.ended;
  assert.equal(exitCode, 0, `${run.stdout}\n${run.stderr}`);
  assert.deepEqual(readdirSync(folder), []);
}

test('four workers with one dispatcher serve two training jobs, and end when one shuts them down', async (t) => {
  const service = startService(t, 4);
  const { path, run } = service;
  await run.waitForOutput(/the data service is ready: 4 workers, 1 dispatcher\. Training processes read/);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const table = status(path);
  assert.match(table, /^data service of \S+ · 1 dispatcher · 4 workers\n/);
  assert.equal(table.match(/^\d+ D? +\S+ +\d+/gm)?.length, 4, table);
  // Each rank sees every sample.
  const alone = await train(2, path, { count: 50 });
  for (const epochs of alone) {
    assert.deepEqual(sorted(epochs[0]?.ids ?? []), range(50));
    assert.ok(epochs[0]?.pids.every((pid) => run.stdout.length > 0 && pid !== process.pid));
  }
  // All ranks together see every sample, with as many batches for each.
  const together = await train(2, path, { count: 48, epochs: 2, reuse: true, roundRobin: true, ends: true });
  for (const epoch of [0, 1]) {
    const [a, b] = together.map((epochs) => epochs[epoch] as Epoch) as [Epoch, Epoch];
    assert.deepEqual(sorted([...a.ids, ...b.ids]), range(48));
    assert.equal(a.batches, b.batches);
  }
  await endedWell(service);
});

test('with two dispatchers, each of two trainers has a dispatcher and two workers of its own', async (t) => {
  const service = startService(t, 4, ['--dispatchers', '2']);
  const ranks = await train(2, service.path, { count: 40, ends: true });
  for (const epochs of ranks) assert.deepEqual(sorted(epochs[0]?.ids ?? []), range(40));
  const [a, b] = ranks.map((epochs) => epochs[0]?.pids ?? []) as [number[], number[]];
  assert.deepEqual(
    a.filter((pid) => b.includes(pid)),
    [],
  );
  await endedWell(service);
});

test('with dispatchers on the training side, the service waits for one training job after the other', async (t) => {
  const service = startService(t, 2, ['--dispatcher-side', 'training']);
  await service.run.waitForOutput(/ready: 2 workers, 1 dispatcher in the training job/);
  for (const ends of [false, true]) {
    const [a, b] = (await train(2, service.path, { count: 40, reuse: true, ends })) as [Epoch[], Epoch[]];
    assert.deepEqual(sorted([...(a[0]?.ids ?? []), ...(b[0]?.ids ?? [])]), range(40));
  }
  await endedWell(service);
});

test('SIGTERM ends the service and removes the config', async (t) => {
  const { path, run } = startService(t, 2);
  await run.waitForOutput(/the data service is ready/);
  run.child.kill('SIGTERM');
  await run.ended;
  assert.equal(existsSync(path), false);
});

test('with --keep-going the service outlives workers, and the one that runs registry and dispatcher', async (t) => {
  const service = startService(t, 3, [], ['--keep-going']);
  const { path, run } = service;
  await run.waitForOutput(/the data service is ready/);
  const training = startHorovodrun(
    ['-np', '1', '--', trainer, path, JSON.stringify({ count: 80, pauseAfter: 3, ends: true })],
    { env, cwd: repository },
  );
  t.after(() => training.child.kill('SIGKILL'));
  const [, paused] = await training.waitForOutput(/paused (\d+)/);
  const pids = workersOf(path);
  assert.equal(pids.length, 3);
  process.kill(pids[0] as number, 'SIGKILL');
  await run.waitForOutput(/the registry of the data service was lost; this process runs the next one/);
  process.kill(Number(paused), 'SIGUSR1');
  const { exitCode } = await training.ended;
  assert.equal(exitCode, 0, `${training.stdout}\n${training.stderr}\n${run.stdout}\n${run.stderr}`);
  assert.deepEqual(sorted(epochsOf(training.stdout)[0]?.ids ?? []), range(80));
  await run.ended;
  assert.match(run.stderr, /was killed by SIGKILL; the other 2 ranks keep going/);
  assert.deepEqual(readdirSync(service.folder), []);
});

test('in an elastic job, horovodrun replaces workers, also the one that runs registry and dispatcher', async (t) => {
  const service = startService(t, 3, [], ['--min-np', '1']);
  const { path, run } = service;
  await run.waitForOutput(/the data service is ready/);
  const training = startHorovodrun(
    ['-np', '1', '--', trainer, path, JSON.stringify({ count: 80, pauseAfter: 3, ends: true })],
    { env, cwd: repository },
  );
  t.after(() => training.child.kill('SIGKILL'));
  const [, paused] = await training.waitForOutput(/paused (\d+)/);
  const pids = workersOf(path);
  process.kill(pids[0] as number, 'SIGKILL');
  await run.waitForOutput(/compute worker \d+ on \S+ \(pid \d+\) is there/);
  const now = workersOf(path);
  assert.equal(now.length, 3);
  assert.equal(now.filter((pid) => pids.includes(pid)).length, 2);
  process.kill(Number(paused), 'SIGUSR1');
  const { exitCode } = await training.ended;
  assert.equal(exitCode, 0, `${training.stdout}\n${training.stderr}\n${run.stdout}\n${run.stderr}`);
  assert.deepEqual(sorted(epochsOf(training.stdout)[0]?.ids ?? []), range(80));
  assert.equal((await run.ended).exitCode, 0, `${run.stdout}\n${run.stderr}`);
  assert.match(run.stderr, /was killed by SIGKILL; 2 ranks continue/);
  assert.deepEqual(readdirSync(service.folder), []);
});

/** Process ids of the workers that the registry knows, by number. */
function workersOf(path: string): number[] {
  const { stdout } = spawnSync(process.execPath, [command, 'status', path, '--json'], { encoding: 'utf8' });
  const { service } = JSON.parse(stdout) as { service: { workers: { pid: number }[]; pid: number } };
  return [service.pid, ...service.workers.map(({ pid }) => pid).filter((pid) => pid !== service.pid)];
}

test('processes without a launcher need --rank and --size; another one joins', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-data-service-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'compute.json');
  const start = (...words: string[]) => {
    const child = spawn(process.execPath, [command, 'compute-worker', ...words, path], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => child.kill('SIGKILL'));
    return child;
  };
  const ranks = ['0', '1'].map((rank) => start('--rank', rank, '--size', '2'));
  while (!existsSync(path)) await new Promise((resolve) => setImmediate(resolve));
  while (!/ 2 workers\n/.test(status(path)));
  const joined = start('--join');
  while (!/ 3 workers\n/.test(status(path)));
  joined.kill('SIGINT');
  const [code] = await once(joined, 'exit');
  assert.equal(code, 0);
  ranks[0]?.kill('SIGTERM');
  for (const child of ranks) {
    if (child.exitCode === null) await once(child, 'exit');
    assert.equal(child.exitCode, 0);
  }
  assert.deepEqual(readdirSync(folder), []);
});
