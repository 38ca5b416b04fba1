// The flags of elastic jobs: what they mean, and what cannot be combined.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import type { PlanHost } from '../../rendezvous/driver/plan.ts';
import { parseCommandLine } from '../../settings/command-line.ts';
import { elasticSettings, isElastic } from '../../settings/table/elastic.ts';
import { settingsTable } from '../../settings/table.ts';
import { ConsoleWriter } from '../output/console-writer.ts';
import type { ElasticRequest } from './elastic-job.ts';
import { elasticLimits, elasticRequest } from './elastic-request.ts';

async function requestOf(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<{ request: ElasticRequest; said: string[]; hosts: readonly PlanHost[] }> {
  const { options, command, settings, environment } = parseCommandLine([...args, 'train.ts'], env);
  const nowhere = new ConsoleWriter(
    new Writable({ write: (_bytes, _encoding, done) => done() }),
    () => undefined,
  );
  const said: string[] = [];
  const request = await elasticRequest({
    options,
    command,
    settings,
    environment,
    driverEnvironment: env,
    stdout: nowhere,
    stderr: nowhere,
    say: (text) => said.push(text),
  });
  let hosts: readonly PlanHost[] = [];
  await request.hosts.start((found) => {
    hosts = found;
  });
  request.hosts.stop();
  return { request, said, hosts };
}

test('--min-np or a discovery script makes a job elastic; nothing else does (test_elastic_args)', () => {
  const of = (...args: string[]) => isElastic(parseCommandLine([...args, 'train.ts'], {}).settings);
  assert.equal(of('-np', '2', '--min-np', '1'), true);
  assert.equal(of('-np', '2', '--min-num-proc', '1'), true);
  assert.equal(of('-np', '2', '--host-discovery-script', './hosts.sh'), true);
  assert.equal(of('-np', '2'), false);
});

for (const [flag, ...values] of [
  ['--max-np', '4'],
  ['--slots-per-host', '2'],
  ['--elastic-timeout', '9'],
  ['--reset-limit', '3'],
  ['--blacklist-cooldown-range', '1', '2'],
  ['--spares', '1'],
  ['--stopped-timeout', '1'],
  ['--hang-timeout', '1'],
] as const) {
  test(`${flag} is rejected in a job that is not elastic, and its variable has no effect there`, () => {
    const { env = '' } = settingsTable[settingOf(flag)];
    const parse = (args: readonly string[], variables = {}) =>
      parseCommandLine(['-np', '2', ...args, 'train.ts'], variables).settings;
    assert.throws(() => parse([flag, ...values]), {
      code: 'ERR_HVD_SETTING',
      message: `ERR_HVD_SETTING: ${flag} is for elastic jobs. Add --min-np or --host-discovery-script, or remove it.`,
    });
    assert.equal(isElastic(parse([], { [env]: values.join(' ') })), false);
    assert.equal(isElastic(parse(['--min-np', '1', flag, ...values])), true);
  });
}

function settingOf(flag: string): keyof typeof elasticSettings {
  const [[name] = ['']] = Object.entries(elasticSettings).filter(([, { flags }]) =>
    flags?.some(({ names }) => (names as readonly string[]).includes(flag)),
  );
  return name as keyof typeof elasticSettings;
}

test('flags and their defaults become limits', async () => {
  const { request, hosts } = await requestOf(['-np', '2', '--min-np', '1', '--max-np', '3', '--spares', '1']);
  assert.deepEqual(request.limits, {
    np: 2,
    min: 1,
    max: 3,
    spares: 1,
    elasticTimeoutMs: 600_000,
    readyTimeoutMs: 600_000,
    resetLimit: undefined,
    cooldown: { minMs: 1000, maxMs: 60_000 },
    collectTimeoutMs: 1_800_000,
    stoppedTimeoutMs: 1000,
  });
  assert.deepEqual(hosts, [{ name: 'localhost', slots: 4 }]);
  assert.equal(request.hangTimeoutMs, 60_000);
  assert.equal(request.environment['HOROVOD_PEER_TIMEOUT_SECONDS'], '5');
});

test('every flag has its variable and its key in the config file', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-test-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'config.yaml');
  writeFileSync(
    file,
    'elastic:\n  min_np: 2\n  max_np: 6\n  timeout: 30\n  cooldown_range: 2 8\n  reset_limit: 5\n  spares: 1\n' +
      '  stopped_timeout: 3\n  hang_timeout: 4\n  slots_per_host: 7\n',
  );
  const limitsOf = (args: readonly string[], env: NodeJS.ProcessEnv = {}) => {
    const { options, settings } = parseCommandLine([...args, 'train.ts'], env);
    return { ...elasticLimits(settings, options), slotsPerHost: settings.slotsPerHost };
  };
  const fromFile = limitsOf(['-np', '2', '--config-file', file]);
  const fromFlags = limitsOf([
    ...['-np', '2', '--min-np', '2', '--elastic-timeout', '30'],
    ...['--blacklist-cooldown-range', '2', '8', '--reset-limit', '5', '--max-np', '6', '--spares', '1'],
    ...['--stopped-timeout', '3', '--hang-timeout', '4', '--slots', '7'],
  ]);
  const fromVariables = limitsOf(['-np', '2'], {
    HOROVOD_ELASTIC_MIN_NP: '2',
    HOROVOD_ELASTIC_TIMEOUT: '30',
    HOROVOD_ELASTIC_COOLDOWN_RANGE: '2 8',
    HOROVOD_ELASTIC_RESET_LIMIT: '5',
    HOROVOD_ELASTIC_MAX_NP: '6',
    HOROVOD_ELASTIC_SPARES: '1',
    HOROVOD_ELASTIC_STOPPED_TIMEOUT: '3',
    HOROVOD_ELASTIC_HANG_TIMEOUT: '4',
    HOROVOD_ELASTIC_SLOTS_PER_HOST: '7',
  });
  assert.deepEqual(fromFile.cooldown, { minMs: 2000, maxMs: 8000 });
  const { min, max, spares, resetLimit, stoppedTimeoutMs, hangTimeoutMs, slotsPerHost } = fromFile;
  assert.deepEqual(
    { min, max, spares, resetLimit, stoppedTimeoutMs, hangTimeoutMs, slotsPerHost },
    {
      min: 2,
      max: 6,
      spares: 1,
      resetLimit: 5,
      stoppedTimeoutMs: 3000,
      hangTimeoutMs: 4000,
      slotsPerHost: 7,
    },
  );
  assert.deepEqual(fromFlags, fromFile);
  assert.deepEqual(fromVariables, fromFile);
});

test('a flag with two values leaves the command alone', () => {
  const parse = (...args: string[]) => parseCommandLine(['--min-np', '1', ...args], {});
  const joined = parse('--cooldown-range', '1', '2.5', '-np', '1', 'train.ts', '--cooldown-range', '3', '4');
  assert.deepEqual(joined.command, ['train.ts', '--cooldown-range', '3', '4']);
  assert.deepEqual(joined.settings.cooldown, { minMs: 1000, maxMs: 2500 });
  assert.deepEqual(parse('--cooldown-range=0,0', '-np', '1', 'x').settings.cooldown, { minMs: 0, maxMs: 0 });
  assert.throws(() => parse('--cooldown-range', '5', '2', 'train.ts'), /expected two numbers of seconds/);
  assert.throws(() => parse('--cooldown-range', '5', 'train.ts'), /expected two numbers of seconds/);
});

test('-np is --min-np if it is not given, and --min-np is -np', async () => {
  assert.equal((await requestOf(['--min-np', '3'])).request.limits.np, 3);
  const { limits } = (await requestOf(['-np', '2', '--host-discovery-script', '/bin/echo'])).request;
  assert.equal(limits.min, 2);
});

test('hosts of -H are used as they are (test_run_with_hosts)', async () => {
  const { hosts, request } = await requestOf(['-np', '2', '--min-np', '1', '-H', 'localhost:2,127.0.0.1:4']);
  assert.deepEqual(hosts, [
    { name: 'localhost', slots: 2 },
    { name: '127.0.0.1', slots: 4 },
  ]);
  assert.equal(request.remote, undefined);
});

for (const [args, expected] of [
  [['-np', '2', '--min-np', '4', '--max-np', '3'], /--min-np 4 is more than --max-np 3/],
  [['-np', '2', '--min-np', '3'], /-np 2 is less than --min-np 3/],
  [['-np', '5', '--min-np', '1', '--max-np', '3'], /-np 5 is more than --max-np 3/],
  [['-np', '5', '--min-np', '1', '-H', 'localhost:2'], /-np 5 is more than the 2 slots on localhost:2/],
  [['--host-discovery-script', './hosts.sh'], /-np \(the number of processes to start with\) is missing/],
  [['-np', '2', '--min-np', '1', '--mpi'], /elastic training does not work with --mpi/],
  [
    ['-np', '2', '-H', 'a:2', '--host-discovery-script', 'x'],
    /cannot be used together with -H or --hostfile/,
  ],
] as const) {
  test(`${args.join(' ')} is rejected`, async () => {
    await assert.rejects(requestOf(args), { code: 'ERR_HVD_SETTING', message: expected });
  });
}

test('--gloo becomes tcp, with a warning', async () => {
  const { request, said } = await requestOf(['-np', '2', '--min-np', '1', '--gloo']);
  assert.equal(request.environment['HOROVOD_TRANSPORT'], 'tcp');
  assert.match(said.join(), /libgloo cannot replace a lost rank/);
});

test('a peer timeout that was given stays', async () => {
  const { request } = await requestOf(['-np', '2', '--min-np', '1', '--peer-timeout-seconds', '9']);
  assert.equal(request.environment['HOROVOD_PEER_TIMEOUT_SECONDS'], '9');
});

test('in a Slurm allocation of several nodes, the hosts are its nodes, unless they are given or discovered', async () => {
  const env = { SLURM_JOB_NODELIST: '127.0.0.[1-2],localhost', SLURM_TASKS_PER_NODE: '2(x2),1' };
  const nodes = [
    { name: '127.0.0.1', slots: 2 },
    { name: '127.0.0.2', slots: 2 },
    { name: 'localhost', slots: 1 },
  ];
  assert.deepEqual((await requestOf(['-np', '2', '--min-np', '1'], env)).hosts, nodes);
  const given = await requestOf(['-np', '2', '--min-np', '1', '-H', 'localhost:4'], env);
  assert.deepEqual(given.hosts, [{ name: 'localhost', slots: 4 }]);
  const single = { ...env, SLURM_JOB_NODELIST: 'localhost', SLURM_TASKS_PER_NODE: '1' };
  assert.deepEqual((await requestOf(['-np', '2', '--min-np', '1'], single)).hosts, [
    { name: 'localhost', slots: 2 },
  ]);
  const folder = mkdtempSync(join(tmpdir(), 'horovod-test-'));
  const script = join(folder, 'hosts.sh');
  writeFileSync(script, '#!/bin/sh\necho localhost:7\n', { mode: 0o755 });
  try {
    const found = await requestOf(['-np', '2', '--host-discovery-script', script], env);
    assert.deepEqual(found.hosts, [{ name: 'localhost', slots: 7 }]);
  } finally {
    rmSync(folder, { recursive: true });
  }
  await assert.rejects(requestOf(['-np', '9', '--min-np', '1'], env), /more than the 5 slots/);
});
