// The config of a data service: what is in the file, whose file counts, and what reading it waits for.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { inspect } from 'node:util';
import { errorOf } from '../../../test/support/error-of.ts';
import { Files } from '../../files/registry.ts';
import { settingsTable } from '../../settings/table.ts';
import { clientOf, removeConfig, TfDataServiceConfig, type TfDataServiceConfigFields } from './config.ts';
import { readConfigFile } from './config-file.ts';
import { Registry } from './registry.ts';

const folder = mkdtempSync(join(tmpdir(), 'horovod-service-config-'));
after(() => rmSync(folder, { recursive: true }));
const key = '0123456789abcdef'.repeat(4);
const fields: TfDataServiceConfigFields = {
  dispatchers: 2,
  workersPerDispatcher: 3,
  dispatcherSide: 'training',
  addresses: ['10.0.0.1:4000', '[fd00::1]:4000', '127.0.0.1:4000'],
  key,
  timeout: 30,
};
let count = 0;
const newPath = () => join(folder, `compute-${count++}.json`);
const keyVariable = settingsTable.dataServiceKey.env as string;

async function withKey<T>(value: string, action: () => Promise<T>): Promise<T> {
  process.env[keyVariable] = value;
  try {
    return await action();
  } finally {
    delete process.env[keyVariable];
  }
}

test('the file has the keys of Python Horovod and the protocol, and is readable by its owner alone', async () => {
  const path = newPath();
  await new TfDataServiceConfig(fields).write(path);
  assert.deepEqual(JSON.parse(readFileSync(path, 'utf8')), {
    protocol: 'horovod-ts/1',
    dispatchers: 2,
    workers_per_dispatcher: 3,
    dispatcher_side: 'training',
    addresses: {
      all: [
        ['10.0.0.1', 4000],
        ['fd00::1', 4000],
        ['127.0.0.1', 4000],
      ],
    },
    timeout: 30,
    incarnation: 1,
    key,
  });
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.endsWith('.tmp')),
    [],
  );
  const read = await TfDataServiceConfig.read(path);
  assert.deepEqual({ ...read, key: read.key }, { ...fields, incarnation: 1 });
});

test('toJSON() and fromJSON() are inverse; what is printed does not show the key', async () => {
  const config = new TfDataServiceConfig(fields);
  assert.deepEqual(
    TfDataServiceConfig.fromJSON(JSON.parse(JSON.stringify(config))).toJSON(),
    config.toJSON(),
  );
  const path = newPath();
  await config.write(path);
  assert.ok(!('path' in JSON.parse(readFileSync(path, 'utf8'))));
  assert.equal(TfDataServiceConfig.fromJSON(JSON.parse(JSON.stringify(config))).toJSON().path, path);
  assert.ok(!inspect(config, { depth: 9, showHidden: true }).includes(key));
  assert.equal(new TfDataServiceConfig({ ...fields, timeout: undefined }).timeout, 60);
});

test('HOROVOD_DATA_SERVICE_KEY keeps the key out of the file, and is needed to read that', async () => {
  const path = newPath();
  await withKey(key, () => new TfDataServiceConfig(fields).write(path));
  assert.ok(!readFileSync(path, 'utf8').includes(key));
  const error = await errorOf(TfDataServiceConfig.read(path));
  assert.match(
    error.message,
    /^ERR_HVD_DATA_SERVICE: .* has no key: the compute job was started with HOROVOD_DATA_SERVICE_KEY/,
  );
  assert.equal((await withKey(key, () => TfDataServiceConfig.read(path))).key, key);
});

test('a file that others can write is not used', async () => {
  const path = newPath();
  await new TfDataServiceConfig(fields).write(path);
  for (const mode of [0o602, 0o620, 0o666]) {
    chmodSync(path, mode);
    const error = await errorOf(TfDataServiceConfig.read(path));
    assert.match(error.message, /^ERR_HVD_DATA_SERVICE: .*others can write it \(mode 6\d\d\).*chmod 600/);
  }
  chmodSync(path, 0o644);
  await TfDataServiceConfig.read(path);
});

test('a file of another user is not used, whether it is waited for or not; one of root is', async (t) => {
  if (process.getuid?.() !== 0) return t.skip('only root can give files away');
  const path = newPath();
  await new TfDataServiceConfig(fields).write(path);
  const files = new Files({} as never);
  assert.ok((await readConfigFile(files, path, { user: 4711 })).includes(key));
  chownSync(path, 4711, 4711);
  assert.ok((await readConfigFile(files, path, { user: 4711 })).includes(key));
  for (const waitForFileCreation of [false, true]) {
    const error = await errorOf(TfDataServiceConfig.read(path, { waitForFileCreation }));
    assert.match(error.message, /it belongs to the user with number 4711, and not to you \(0\)/);
  }
});

test('what is no file, is too long or is no config is an error with the path', async () => {
  const pipe = newPath();
  execFileSync('mkfifo', ['-m', '600', pipe]);
  const long = newPath();
  writeFileSync(long, ' '.repeat(70_000), { mode: 0o600 });
  const nested = newPath();
  mkdirSync(nested);
  const table: readonly (readonly [path: string, message: RegExp])[] = [
    [newPath(), /it does not exist/],
    [pipe, /is not a file/],
    [nested, /is not a file/],
    [long, /has 70000 bytes/],
    [fileWith('{'), /is not JSON/],
    [fileWith('[]'), /is no config of a data service/],
    [fileWith('{"dispatchers":1,"workers_per_dispatcher":1,"key":"aa"}'), /is of Python Horovod/],
    [
      fileWith('{"protocol":"horovod-ts/9"}'),
      /of the protocol "horovod-ts\/9"; this version understands horovod-ts\/1/,
    ],
    [fileWithFields({ dispatchers: 0 }), /dispatchers is a positive number, not 0/],
    [fileWithFields({ addresses: { all: [['h', 'x']] } }), /addresses is a list of host:port/],
    [fileWithFields({ dispatcher_side: 'left' }), /'compute' or 'training', not "left"/],
    [fileWithFields({ key: 'short' }), /key is a text of 32 bytes in hex/],
  ];
  for (const [path, message] of table) {
    const error = await errorOf(TfDataServiceConfig.read(path));
    assert.match(error.message, message);
    assert.ok(error.message.includes(path), error.message);
  }
  const web = await errorOf(TfDataServiceConfig.read('http://127.0.0.1:1/compute.json'));
  assert.match(web.message, /nothing says who can write it there/);
});

function fileWith(text: string): string {
  const path = newPath();
  writeFileSync(path, text, { mode: 0o600 });
  return path;
}

function fileWithFields(changes: object): string {
  return fileWith(JSON.stringify({ ...new TfDataServiceConfig(fields).toJSON(), ...changes }));
}

async function startRegistry(t: { after(fn: () => unknown): void }) {
  const options = {
    dispatchers: 1,
    workersPerDispatcher: 1,
    dispatcherSide: 'compute',
    key,
    timeout: 20,
  } as const;
  const registry = await Registry.start({ ...options, incarnation: 1, listenOn: 'loopback' });
  t.after(() => registry.close());
  return { registry, config: new TfDataServiceConfig({ ...options, addresses: registry.addresses }) };
}

test('reading can wait for the file, and for a service that answers behind it', async (t: TestContext) => {
  const path = newPath();
  const stale = new TfDataServiceConfig({ ...fields, addresses: ['127.0.0.1:1'] });
  const warned = new Promise<string>((resolve) => {
    t.mock.method(process, 'emitWarning', (text: string) => resolve(text));
  });
  const reading = TfDataServiceConfig.read(path, { waitForFileCreation: true, timeoutMs: 60_000 });
  await stale.write(path);
  assert.match(
    await warned,
    /compute-\d+\.json is the config of a data service that does not answer \(.*nothing is listening there.*\)\. Waiting/,
  );
  const { config } = await startRegistry(t);
  await config.write(path);
  assert.deepEqual((await reading).addresses, config.addresses);
});

test('the wait has a deadline, which says what was found, and ends by a signal', async () => {
  const path = newPath();
  const wait = { waitForFileCreation: true, timeoutMs: 50 };
  const missing = await errorOf(TfDataServiceConfig.read(path, wait));
  assert.match(
    missing.message,
    /^ERR_HVD_TIMEOUT: waited 0\.05 s for a data service at .*: the file does not exist\./,
  );
  await new TfDataServiceConfig({ ...fields, addresses: ['127.0.0.1:1'] }).write(path);
  const silent = await errorOf(TfDataServiceConfig.read(path, wait));
  assert.match(silent.message, /the service in the file does not answer \(.*nothing is listening there/);
  const signal = AbortSignal.timeout(10);
  const aborted = await errorOf(TfDataServiceConfig.read(newPath(), { waitForFileCreation: true, signal }));
  assert.equal(aborted.code, 'ERR_HVD_ABORTED');
});

test('the client of a config finds the service, and the next one in the same file', async (t) => {
  const path = newPath();
  const first = await startRegistry(t);
  await first.config.write(path);
  const client = (await TfDataServiceConfig.read(path)).computeClient();
  t.after(() => client.close());
  assert.equal((await client.status()).pid, process.pid);
  const second = await startRegistry(t);
  await second.config.write(path);
  await first.registry.close();
  assert.deepEqual(await client.registerWorker(0, ['a:1']), { number: 0 });
  const other = second.config.computeClient();
  t.after(() => other.close());
  assert.equal((await other.status()).workers.length, 1);
});

test('a client that comes while the registry is being replaced waits for the next one, unless it only has a look', async (t) => {
  const path = newPath();
  const first = await startRegistry(t);
  await first.config.write(path);
  const config = await TfDataServiceConfig.read(path);
  await first.registry.close();
  const hasty = clientOf(config, path, { isHasty: true });
  t.after(() => hasty.close());
  assert.match((await errorOf(hasty.status())).message, /nothing is listening there/);
  const client = config.computeClient();
  t.after(() => client.close());
  const answer = client.status();
  await assert.rejects(client.status({ timeoutMs: 50 }), { code: 'ERR_HVD_TIMEOUT' });
  const second = await startRegistry(t);
  await second.config.write(path);
  assert.equal((await answer).pid, process.pid);
  // Without the config there is nothing to wait for.
  const late = config.computeClient();
  t.after(() => late.close());
  await second.registry.close();
  await removeConfig(second.config, path);
  assert.match((await errorOf(late.status())).message, /nothing is listening there/);
});

test('a config is removed only by the service that has written it', async () => {
  const path = newPath();
  const own = new TfDataServiceConfig(fields);
  await new TfDataServiceConfig({ ...fields, addresses: ['10.0.0.2:4000'] }).write(path);
  await removeConfig(own, path);
  assert.ok(statSync(path).isFile());
  await own.write(path);
  await removeConfig(own, path);
  await removeConfig(own, path);
  assert.throws(() => statSync(path), /ENOENT/);
});

test('wrong fields are errors that name them', () => {
  for (const [changes, message] of [
    [{ dispatchers: 1.5 }, /dispatchers is a positive number, not 1\.5/],
    [{ workersPerDispatcher: -1 }, /workersPerDispatcher is a positive number/],
    [{ timeout: 0 }, /timeout is a positive number, not 0/],
    [{ addresses: [] }, /addresses is a list of host:port, not \[\]/],
  ] as const) {
    assert.throws(() => new TfDataServiceConfig({ ...fields, ...changes }), message);
  }
});
