// Who runs the registry when the first one is lost. All keepers live in this process; a registry that does not answer is one that
// they are told of.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, test } from 'node:test';
import { TfDataServiceConfig } from './config.ts';
import { RegistryKeeper } from './registry-keeper.ts';
import type { ServicePlace } from './registry-messages.ts';

const folder = mkdtempSync(join(tmpdir(), 'horovod-registry-keeper-'));
after(() => rmSync(folder, { recursive: true }));
let count = 0;

interface Scope {
  after(fn: () => unknown): void;
}

async function startService(t: Scope, lookMs = 20) {
  const path = join(folder, `compute-${count++}.json`);
  const lines: string[] = [];
  const keeperOf = (index: number, endsService = true) => {
    const keeper = new RegistryKeeper({
      path,
      index,
      endsService,
      log: (line) => lines.push(line),
      lookMs,
    });
    t.after(() => keeper.close());
    return keeper;
  };
  const first = keeperOf(0);
  const config = await first.open({
    key: randomBytes(32).toString('hex'),
    incarnation: 1,
    dispatchers: 1,
    workersPerDispatcher: 3,
    dispatcherSide: 'compute',
    timeout: 20,
  });
  return { path, lines, first, keeperOf, place: { ...config, key: config.key } as ServicePlace };
}

/** The config and whatever lies beside it. */
function filesOf(path: string): string[] {
  return readdirSync(folder).filter((name) => name.startsWith(basename(path)));
}

const longMs = 1_000_000;

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
}

test('a registry that does not answer is replaced, and ends when it sees that', async (t) => {
  const { path, lines, first, keeperOf, place } = await startService(t);
  const second = keeperOf(1);
  second.consider(place, 1000);
  assert.equal(second.isKeeper, false);
  second.consider(place, longMs);
  await until(() => second.isKeeper && !first.isKeeper);
  const config = await TfDataServiceConfig.read(path);
  assert.deepEqual([config.incarnation, config.key], [2, place.key]);
  assert.match(lines.join('\n'), /the registry of the data service was lost; this process runs the next one/);
  assert.match(lines.join('\n'), /another process runs the registry of the data service now/);
  await using client = config.computeClient();
  assert.equal((await client.status()).isShutDown, false);
  await client.close();
  await second.close();
  assert.deepEqual(filesOf(path), []);
});

test('one that is asked to end the service before it has noticed its successor ends that one, too', async (t) => {
  const { path, keeperOf, place, first } = await startService(t, 60_000);
  const second = keeperOf(1);
  second.consider(place, longMs);
  await until(() => second.isKeeper);
  assert.equal(first.isKeeper, true);
  await using client = new TfDataServiceConfig(place).computeClient();
  const successor = await TfDataServiceConfig.read(path);
  await using other = successor.computeClient();
  const ended = other.waitForShutdown();
  await client.shutdown();
  await ended;
  await Promise.all([client.close(), other.close()]);
  await Promise.all([first.close(), second.close()]);
  assert.deepEqual(filesOf(path), []);
});

test('of several that try, one takes over', async (t) => {
  const { path, first, keeperOf, place } = await startService(t);
  const others = [1, 2, 3].map((index) => keeperOf(index));
  for (const keeper of others) keeper.consider(place, longMs);
  await until(() => others.some(({ isKeeper }) => isKeeper) && !first.isKeeper);
  for (const keeper of others) keeper.consider(place, longMs);
  await Promise.all(others.filter(({ isKeeper }) => !isKeeper).map((keeper) => keeper.close()));
  assert.equal(others.filter(({ isKeeper }) => isKeeper).length, 1);
  assert.equal((await TfDataServiceConfig.read(path)).incarnation, 2);
});

test('nobody takes over a service that has ended, or one that has another registry already', async (t) => {
  const { path, first, keeperOf, place } = await startService(t);
  const other = keeperOf(1);
  other.consider({ ...place, incarnation: 0 }, longMs);
  await other.close();
  await first.close();
  const late = keeperOf(1);
  late.consider(place, longMs);
  await late.close();
  assert.deepEqual([other.isKeeper, late.isKeeper, existsSync(path)], [false, false, false]);
});

test('whoever was lost while it took over is passed by', async (t) => {
  const { path, keeperOf, place } = await startService(t);
  writeFileSync(`${path}.2`, '');
  const second = keeperOf(1);
  second.consider(place, longMs);
  await until(() => second.isKeeper);
  assert.equal((await TfDataServiceConfig.read(path)).incarnation, 3);
  await second.close();
  assert.deepEqual(filesOf(path), []);
});

test('a process without which the service goes on leaves the config to the next one', async (t) => {
  const { path, first, keeperOf, place } = await startService(t);
  const joined = keeperOf(9, false);
  joined.consider(place, longMs);
  await until(() => joined.isKeeper && !first.isKeeper);
  await joined.close();
  assert.ok(existsSync(path));
  const next = keeperOf(2);
  next.consider({ ...place, incarnation: 2 }, longMs);
  await until(() => next.isKeeper);
  assert.equal((await TfDataServiceConfig.read(path)).incarnation, 3);
});
