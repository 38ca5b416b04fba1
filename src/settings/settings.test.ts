// Settings from the environment, the command line and the config file, and the pages made from the table.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { HorovodError } from '../errors.ts';
import { parseCommandLine } from './command-line.ts';
import { parseConfig } from './config-file.ts';
import { forwardedEnvironment } from './environment.ts';
import { foreignFlags } from './foreign-flags.ts';
import { helpText } from './help.ts';
import { JobSecret } from './job-secret.ts';
import { packageRoot } from './package.ts';
import { readSettings } from './read-settings.ts';
import { errorsReference, settingsReference } from './reference.ts';
import { launchTable, type Setting, settingsTable } from './table.ts';

function thrownBy(fn: () => unknown): HorovodError {
  try {
    fn();
  } catch (error) {
    assert.ok(HorovodError.is(error), String(error));
    return error;
  }
  assert.fail('nothing was thrown');
}

test('an empty environment is rank 0 of 1 with the defaults', () => {
  const settings = readSettings({});
  assert.equal(settings.rank, 0);
  assert.equal(settings.size, 1);
  assert.equal(settings.localSize, 1);
  assert.equal(settings.transport, 'auto');
  assert.equal(settings.native, true);
  assert.equal(settings.operationTimeoutMs, 1_800_000);
  assert.equal(settings.startTimeoutMs, 30_000);
  assert.equal(settings.fusionThresholdBytes, 128 * 2 ** 20);
  assert.equal(settings.stallCheck, true);
  assert.equal(settings.secret, undefined);
  assert.deepEqual(readSettings({ HOROVOD_TRANSPORT: '' }), settings);
});

test('variables are read in their units', () => {
  const settings = readSettings({
    HOROVOD_RANK: '1',
    HOROVOD_SIZE: '4',
    HOROVOD_TIMEOUT_SECONDS: '0.5',
    HOROVOD_CYCLE_TIME: '2.5',
    HOROVOD_STALL_CHECK_DISABLE: '1',
    HOROVOD_FUSION_THRESHOLD: '1024',
    HOROVOD_LOG_LEVEL: 'DEBUG',
    HOROVOD_NATIVE: '0',
    HOROVOD_RENDEZVOUS_ADDR: '127.0.0.1:4000',
  });
  assert.equal(settings.operationTimeoutMs, 500);
  assert.equal(settings.cycleTimeMs, 2.5);
  assert.equal(settings.stallCheck, false);
  assert.equal(settings.fusionThresholdBytes, 1024);
  assert.equal(settings.logLevel, 'debug');
  assert.equal(settings.native, false);
  assert.equal(settings.rendezvousAddress, '127.0.0.1:4000');
});

test('a rank without placement is on the only host there is', () => {
  const settings = readSettings({ HOROVOD_RANK: '2', HOROVOD_SIZE: '3' });
  assert.equal(settings.localRank, 2);
  assert.equal(settings.localSize, 3);
  assert.equal(settings.crossSize, 1);
});

for (const [name, text] of [
  ['HOROVOD_CYCLE_TIME', '-1'],
  ['HOROVOD_FUSION_THRESHOLD', '1.5'],
  ['HOROVOD_FUSION_THRESHOLD', '1e3'],
  ['HOROVOD_TIMEOUT_SECONDS', '0'],
  ['HOROVOD_TIMEOUT_SECONDS', '99999999999'],
  ['HOROVOD_STALL_CHECK_TIME_SECONDS', '-1'],
  ['HOROVOD_NATIVE', 'maybe'],
  ['HOROVOD_TRANSPORT', 'gpu'],
  ['HOROVOD_LOG_LEVEL', 'loud'],
  ['HOROVOD_RENDEZVOUS_ADDR', 'somewhere'],
  ['HOROVOD_RENDEZVOUS_ADDR', 'host:70000'],
  ['HOROVOD_RENDEZVOUS_ADDR', '::1:4000'],
  ['HOROVOD_RENDEZVOUS_ADDR', 'host:1,'],
  ['HOROVOD_RENDEZVOUS', 'host'],
  ['HOROVOD_NETWORK_INTERFACES', 'eth0,10.0.0.0/33'],
  ['HOROVOD_PEER_TIMEOUT_SECONDS', '0'],
  ['HOROVOD_HIERARCHICAL_ALLREDUCE', 'perhaps'],
  ['HOROVOD_JOB_ID', 'a b'],
] as const) {
  test(`${name}=${text} is rejected by name, with what is accepted`, () => {
    const error = thrownBy(() => readSettings({ [name]: text }));
    assert.equal(error.code, 'ERR_HVD_SETTING');
    assert.ok(error.message.includes(name) && error.message.includes('expected'), error.message);
  });
}

test('a rank outside its size, or without a size, is rejected', () => {
  assert.match(thrownBy(() => readSettings({ HOROVOD_RANK: '2', HOROVOD_SIZE: '2' })).message, /less than/);
  assert.match(thrownBy(() => readSettings({ HOROVOD_RANK: '2' })).message, /must be set together/);
});

test('a process of mpirun or srun is a rank of its job', () => {
  for (const env of [
    { OMPI_COMM_WORLD_SIZE: '4', OMPI_COMM_WORLD_RANK: '3' },
    { PMI_SIZE: '4', PMI_RANK: '3', PMI_FD: '7' },
    { SLURM_STEP_ID: '0', SLURM_STEP_NUM_TASKS: '4', SLURM_PROCID: '3' },
  ]) {
    const settings = readSettings(env);
    assert.deepEqual([settings.rank, settings.size], [3, 4]);
    assert.equal(readSettings({ ...env, HOROVOD_RANK: '0', HOROVOD_SIZE: '1' }).size, 1);
  }
  assert.equal(readSettings({ SLURM_NTASKS: '4', SLURM_PROCID: '0' }).size, 1);
});

test('what moves the bytes can be said in three variables, a config key and flags', () => {
  const transportOf = (env: Record<string, string>) => readSettings(env).transport;
  for (const transport of ['auto', 'shm', 'tcp', 'mpi', 'gloo', 'portable']) {
    assert.equal(transportOf({ HOROVOD_TRANSPORT: transport }), transport);
  }
  assert.equal(transportOf({ HOROVOD_CPU_OPERATIONS: 'MPI' }), 'mpi');
  assert.equal(transportOf({ HOROVOD_CONTROLLER: 'Gloo' }), 'gloo');
  assert.equal(transportOf({ HOROVOD_CONTROLLER: 'gloo', HOROVOD_CPU_OPERATIONS: 'tcp' }), 'tcp');
  assert.equal(transportOf({ HOROVOD_CONTROLLER: 'gloo', HOROVOD_TRANSPORT: 'portable' }), 'portable');
  const error = thrownBy(() => transportOf({ HOROVOD_CPU_OPERATIONS: 'ccl' }));
  assert.match(error.message, /HOROVOD_CPU_OPERATIONS is "ccl"; expected one of mpi, gloo, tcp/);
  for (const transport of ['tcp', 'mpi', 'gloo']) {
    const line = parseCommandLine([`--${transport}`, 'x'], {
      HOROVOD_TRANSPORT: 'shm',
      HOROVOD_CONTROLLER: 'mpi',
    });
    assert.equal(line.settings.transport, transport);
    assert.deepEqual(parseConfig(`controller: ${transport}`, 'c.yaml').environment, {
      HOROVOD_TRANSPORT: transport,
    });
  }
});

test('settings of several hosts', () => {
  const plain = readSettings({});
  assert.equal(plain.peerTimeoutMs, 10_000);
  assert.equal(plain.hierarchicalAllreduce, undefined);
  assert.equal(plain.networkInterfaces, undefined);
  assert.deepEqual(readSettings({ HOROVOD_GLOO_IFACE: 'eth1' }).networkInterfaces, ['eth1']);
  const { settings, environment, options } = parseCommandLine(
    [
      ...['--peer-timeout-seconds', '3', '--no-hierarchical-allreduce', '--hierarchical-allgather'],
      ...[
        '--network-interface',
        'eth0',
        '--network-interfaces',
        '10.0.0.0/8,eth0',
        '-p',
        '2222',
        '-i',
        'key',
      ],
      ...['--env-deny', 'AWS_*', '--env-deny=B', '--mpi-args=--mca a b', 'x'],
    ],
    {},
  );
  assert.equal(settings.peerTimeoutMs, 3000);
  assert.equal(environment['HOROVOD_HIERARCHICAL_ALLREDUCE'], '0');
  assert.equal(environment['HOROVOD_HIERARCHICAL_ALLGATHER'], '1');
  assert.equal(settings.hierarchicalAllreduce, false);
  assert.equal(settings.hierarchicalAllgather, true);
  assert.deepEqual(settings.networkInterfaces, ['eth0', '10.0.0.0/8']);
  assert.equal(environment['HOROVOD_NETWORK_INTERFACES'], 'eth0,10.0.0.0/8,eth0');
  assert.equal(options.sshPort, 2222);
  assert.equal(options.sshIdentityFile, 'key');
  assert.deepEqual(options.envDeny, ['AWS_*', 'B']);
  assert.equal(options.mpiArgs, '--mca a b');
  const addresses = '[fe80::1%eth0]:4000,host:1,10.0.0.1:65535';
  assert.equal(readSettings({ HOROVOD_RENDEZVOUS_ADDR: addresses }).rendezvousAddress, addresses);
});

test('only what is allowed and not denied goes to the ranks', () => {
  const driver = {
    A: '1',
    AB: '2',
    C: '3',
    PATH: '/bin',
    HOROVOD_TRANSPORT: 'shm',
    OLDPWD: '/',
    HOROVOD_RANK: '7',
    HOROVOD_SECRET_KEY: 'k',
    _HOROVOD_SECRET_KEY: 'l',
    'BASH_FUNC_x%%': '()',
  };
  const names = (rules: object) => Object.keys(forwardedEnvironment(driver, rules)).sort();
  assert.deepEqual(names({}), ['A', 'AB', 'C', 'HOROVOD_TRANSPORT', 'PATH']);
  assert.deepEqual(names({ allow: ['A*'] }), ['A', 'AB', 'HOROVOD_TRANSPORT', 'PATH']);
  assert.deepEqual(names({ allow: ['A*'], deny: ['AB', 'PATH'] }), ['A', 'HOROVOD_TRANSPORT']);
  assert.deepEqual(names({ deny: ['*'] }), []);
});

test('the secret is never shown, wrong or right', () => {
  const wrongSecret = 'not-hex-but-still-secret';
  const error = thrownBy(() => readSettings({ _HOROVOD_SECRET_KEY: wrongSecret }));
  assert.ok(!error.message.includes(wrongSecret));
  const hex = JobSecret.generate().revealForEnvironment();
  const settings = readSettings({ _HOROVOD_SECRET_KEY: hex });
  const shown = [
    inspect(settings, { depth: 9, showHidden: true }),
    JSON.stringify(settings),
    `${settings.secret}`,
  ];
  for (const text of shown) assert.ok(!text.includes(hex));
  assert.equal(settings.secret?.revealForEnvironment(), hex);
});

test('the command starts at the first word that is no flag, and keeps its own flags', () => {
  const line = parseCommandLine(
    ['-np', '2', '-H', 'localhost:2', 'mpirun', '-np', '3', '--verbose', '--'],
    {},
  );
  assert.equal(line.options.processes, 2);
  assert.equal(line.options.hosts, 'localhost:2');
  assert.equal(line.options.verbose, false);
  assert.deepEqual(line.command, ['mpirun', '-np', '3', '--verbose', '--']);
  assert.deepEqual(parseCommandLine(['-np=1', '--', '-odd', 'x'], {}).command, ['-odd', 'x']);
  assert.deepEqual(parseCommandLine(['--num-proc', '3'], {}).command, []);
});

test('flags become the variables of the ranks, and only those that were given', () => {
  const line = parseCommandLine(
    [
      ...['-np', '2', '--fusion-threshold-mb', '10', '--cycle-time-ms', '20', '--no-stall-check'],
      ...['--stall-check-warning-time-seconds', '10', '--log-level', 'INFO', '--timeout-seconds=5', 'x'],
    ],
    { HOROVOD_CYCLE_TIME: '1' },
  );
  assert.deepEqual(line.environment, {
    HOROVOD_FUSION_THRESHOLD: String(10 * 1024 * 1024),
    HOROVOD_CYCLE_TIME: '20',
    HOROVOD_STALL_CHECK_DISABLE: '1',
    HOROVOD_STALL_CHECK_TIME_SECONDS: '10',
    HOROVOD_LOG_LEVEL: 'INFO',
    HOROVOD_TIMEOUT_SECONDS: '5',
  });
  assert.equal(line.settings.cycleTimeMs, 20);
  assert.deepEqual(parseCommandLine(['-np', '2', '--stall-check', 'x'], {}).environment, {
    HOROVOD_STALL_CHECK_DISABLE: '0',
  });
});

test('flags, variables and config keys of the log (test_logging_args)', () => {
  const logOf = (argv: string[], env = {}) => {
    const { logLevel, logFormat, logTime } = parseCommandLine([...argv, 'x'], env).settings;
    return [logLevel, logFormat, logTime];
  };
  assert.deepEqual(logOf([]), ['warning', 'text', true]);
  assert.deepEqual(logOf(['--log-level', 'INFO', '--log-format', 'json', '--log-without-timestamp']), [
    'info',
    'json',
    false,
  ]);
  assert.deepEqual(logOf([], { HOROVOD_LOG_HIDE_TIME: '1', HOROVOD_LOG_FORMAT: 'JSON' }), [
    'warning',
    'json',
    false,
  ]);
  assert.deepEqual(logOf(['--log-hide-timestamp']), ['warning', 'text', false]);
  for (const flag of ['--log-with-timestamp', '--no-log-hide-timestamp']) {
    assert.deepEqual(logOf([flag], { HOROVOD_LOG_HIDE_TIME: '1' }), ['warning', 'text', true]);
  }
  const { environment } = parseConfig('logging:\n  format: json\n  with_timestamp: false', 'c.yaml');
  assert.deepEqual(environment, { HOROVOD_LOG_FORMAT: 'json', HOROVOD_LOG_HIDE_TIME: '1' });
});

test('every spelling of every flag of the table is understood', () => {
  const tables = [...Object.values(launchTable), ...Object.values(settingsTable)] as Setting<unknown>[];
  for (const flag of tables.flatMap((setting) => setting.flags ?? [])) {
    for (const name of flag.names) {
      // The file of --config-file would be read.
      if (name === '--config-file') continue;
      const words: Record<string, string> = {
        '--log-level': 'info',
        '--log-format': 'json',
        '--transport': 'tcp',
        '--notebook-parameter': 'a=1',
      };
      const one = words[name] ?? '1';
      const value = !('operand' in flag) || 'bare' in flag ? [] : 'isPair' in flag ? [one, one] : [one];
      // Some flags are for elastic jobs only.
      const argv = ['--min-np', '1', name, ...value, 'command'];
      assert.deepEqual(parseCommandLine(argv, {}).command, ['command'], name);
    }
  }
});

test('flags of Horovod that are not supported are rejected or get a notice', () => {
  for (const foreign of foreignFlags) {
    for (const name of foreign.names) {
      const argv = ['-np', '2', name, ...(foreign.takesValue ? ['3'] : []), 'command'];
      if (foreign.treatment === 'rejected') {
        const error = thrownBy(() => parseCommandLine(argv, {}));
        assert.equal(error.code, 'ERR_HVD_UNSUPPORTED');
        assert.ok(error.message.includes(`${name}: `) && error.message.includes('not supported'), name);
      } else {
        const line = parseCommandLine(argv, {});
        assert.equal(line.notices.length, 1);
        assert.ok(line.notices[0]?.startsWith(`${name} has no effect`));
        assert.deepEqual(line.command, ['command']);
      }
    }
  }
});

test('wrong flags are rejected with a one-line message', () => {
  for (const [argv, expected] of [
    [['--start-timout', '3', 'x'], /unknown flag --start-timout\. Did you mean --start-timeout\?/],
    [['-n', '3', 'x'], /unknown flag -n\. Did you mean -\w+\?/],
    [['--frobnicate'], /unknown flag --frobnicate\.$/],
    [['-np'], /--num-proc|-np needs a value/],
    [['-np', 'two', 'x'], /-np is "two"; expected an integer ≥ 1/],
    [['-np', '0', 'x'], /expected an integer ≥ 1/],
    [['-H'], /-H needs a value/],
    [['--verbose=1', 'x'], /--verbose takes no value/],
    [['--cycle-time-ms=-1', 'x'], /--cycle-time-ms is "-1"/],
    [['--fusion-threshold-mb', 'x', 'y'], /--fusion-threshold-mb is "x"/],
    [['-H', 'localhost:2', '--hostfile', 'f', 'x'], /cannot be used together/],
    [['--stall-check', '--no-stall-check', 'x'], /conflicts/],
    [['--mpi', '--gloo', 'x'], /--gloo conflicts/],
    [['--tcp', '--mpi', 'x'], /--mpi conflicts/],
    [['--hierarchical-allreduce', '--no-hierarchical-allreduce', 'x'], /conflicts/],
    [['--ssh-port', '70000', 'x'], /expected a port from 1 to 65535/],
    [['--network-interfaces', 'a b', 'x'], /expected network interfaces/],
  ] as const) {
    const error = thrownBy(() => parseCommandLine(argv, {}));
    assert.equal(error.code, 'ERR_HVD_SETTING');
    assert.match(error.message, expected);
    assert.ok(!error.message.includes('\n'));
  }
});

test('a wrong variable of the driver is found before any rank starts; those of an outer job do not count', () => {
  assert.match(
    thrownBy(() => parseCommandLine(['x'], { HOROVOD_CYCLE_TIME: 'a' })).message,
    /HOROVOD_CYCLE_TIME/,
  );
  const outer = { HOROVOD_RANK: '1', HOROVOD_SIZE: '2', HOROVOD_LOCAL_RANK: '1', OMPI_COMM_WORLD_SIZE: '2' };
  assert.equal(parseCommandLine(['x'], outer).settings.size, 1);
  assert.match(
    parseCommandLine(['x'], { HOROVOD_CACHE_CAPACITY: '7' }).notices[0] ?? '',
    /^HOROVOD_CACHE_CAPACITY has no effect/,
  );
});

test('flags win over the config file, whatever their order, and the file over the environment', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-settings-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'config.yaml');
  writeFileSync(file, 'params:\n  fusion_threshold_mb: 32\n  cycle_time_ms: 10\n');
  const env = { HOROVOD_CYCLE_TIME: '1', HOROVOD_FUSION_THRESHOLD: '1' };
  for (const argv of [
    ['--config-file', file, '--cycle-time-ms', '20', 'x'],
    ['--cycle-time-ms', '20', '--config-file', file, 'x'],
  ]) {
    const { settings } = parseCommandLine(argv, env);
    assert.equal(settings.cycleTimeMs, 20);
    assert.equal(settings.fusionThresholdBytes, 32 * 2 ** 20);
  }
});

test("the config file has Horovod's keys", () => {
  const { environment, notices } = parseConfig(
    [
      'stall_check:\n  enabled: false\n  warning_time_seconds: 120\n  shutdown_time_seconds: 240',
      'logging:\n  level: INFO\n  hide_timestamp: true',
      'autotune:\n  enabled: false\n  warmup_samples: 5',
      'library_options:\n  num_nccl_streams: 2\n  mpi_threads_disable: false',
      'timeline:\n',
    ].join('\n'),
    'config.yaml',
  );
  assert.deepEqual(environment, {
    HOROVOD_STALL_CHECK_DISABLE: '1',
    HOROVOD_STALL_CHECK_TIME_SECONDS: '120',
    HOROVOD_STALL_SHUTDOWN_TIME_SECONDS: '240',
    HOROVOD_LOG_LEVEL: 'INFO',
    HOROVOD_AUTOTUNE: 'false',
    HOROVOD_AUTOTUNE_WARMUP_SAMPLES: '5',
    HOROVOD_MPI_THREADS_DISABLE: 'false',
  });
  assert.deepEqual(
    notices.map((notice) => notice.slice(0, notice.indexOf(' has no effect'))),
    [
      'config.yaml:7: logging.hide_timestamp is not a known setting and',
      'config.yaml:12: library_options.num_nccl_streams',
    ],
  );
});

test("autotune has Horovod's flags and keys, and what is given is known", () => {
  const argv = ['--autotune', '--autotune-log-file', 'a.csv', '--autotune-warmup-samples', '1'];
  const more = ['--autotune-steps-per-sample', '4', '--autotune-bayes-opt-max-samples', '9'];
  const { settings, environment } = parseCommandLine(
    [...argv, ...more, '--autotune-gaussian-process-noise', '0.8', '--cycle-time-ms', '2', 'x'],
    { HOROVOD_BUCKET_BYTES: '1024', HOROVOD_OVERLAP: '' },
  );
  assert.deepEqual(environment, {
    HOROVOD_AUTOTUNE: '1',
    HOROVOD_AUTOTUNE_LOG: 'a.csv',
    HOROVOD_AUTOTUNE_WARMUP_SAMPLES: '1',
    HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE: '4',
    HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES: '9',
    HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE: '0.8',
    HOROVOD_CYCLE_TIME: '2',
  });
  assert.equal(settings.autotune, true);
  assert.equal(settings.autotuneNoise, 0.8);
  const tuned = ['fusionThresholdBytes', 'cycleTimeMs', 'bucketBytes', 'overlap'];
  assert.deepEqual(
    tuned.filter((name) => settings.given.has(name)),
    ['cycleTimeMs', 'bucketBytes'],
  );
  assert.throws(() => parseCommandLine(['--autotune-gaussian-process-noise', '2', 'x'], {}), /from 0 to 1/);
  assert.throws(() => parseCommandLine(['--autotune-steps-per-sample', '0', 'x'], {}), /≥ 1/);
});

test('a wrong config file is rejected with file and line', () => {
  for (const [text, code, expected] of [
    [
      'params:\n  cycle_time_ms: soon',
      'ERR_HVD_SETTING',
      /c\.yaml:2: params\.cycle_time_ms is "soon"; expected/,
    ],
    ['params:\n  fusion_threshold_mb: -1', 'ERR_HVD_SETTING', /c\.yaml:2: params\.fusion_threshold_mb is -1/],
    ['stall_check:\n  enabled: 7', 'ERR_HVD_SETTING', /c\.yaml:2: stall_check\.enabled is 7/],
    [
      'params:\n  torus_allreduce: true',
      'ERR_HVD_UNSUPPORTED',
      /c\.yaml:2: params\.torus_allreduce: .*not supported/,
    ],
    [
      'controller: smoke',
      'ERR_HVD_SETTING',
      /c\.yaml:1: controller is "smoke"; expected one of mpi, gloo, tcp/,
    ],
    ['- a\n- b', 'ERR_HVD_SETTING', /map of sections/],
    ['params: {', 'ERR_HVD_SETTING', /c\.yaml:1 is not valid YAML/],
  ] as const) {
    const error = thrownBy(() => parseConfig(text, 'c.yaml'));
    assert.equal(error.code, code);
    assert.match(error.message, expected);
  }
  const missing = thrownBy(() => parseCommandLine(['--config-file', '/nowhere/c.yaml', 'x'], {}));
  assert.match(missing.message, /cannot read the config file \/nowhere\/c\.yaml/);
});

test('a timeline is asked for by flag, file or variable; a flag means a file where it was given', () => {
  const { settings, environment } = parseCommandLine(
    ['--timeline-filename', 't.json', '--timeline-mark-cycles', 'x'],
    {},
  );
  assert.equal(settings.timelineFile, resolve('t.json'));
  assert.equal(environment['HOROVOD_TIMELINE'], resolve('t.json'));
  assert.equal(environment['HOROVOD_TIMELINE_MARK_CYCLES'], '1');
  assert.equal(settings.timelineMarkCycles, true);
  assert.equal(settings.timelineMaxMb, 256);
  const dynamic = parseCommandLine(['--timeline-filename', 'DYNAMIC', '--no-timeline-mark-cycles', 'x'], {});
  assert.equal(dynamic.settings.timelineFile, 'DYNAMIC');
  assert.equal(dynamic.environment['HOROVOD_TIMELINE_MARK_CYCLES'], '0');
  const file = parseConfig('timeline:\n  filename: t.json\n  mark_cycles: true', 'c.yaml').environment;
  assert.deepEqual(file, { HOROVOD_TIMELINE: resolve('t.json'), HOROVOD_TIMELINE_MARK_CYCLES: 'true' });
});

test('--help shows every flag and every variable a user may set', () => {
  const help = helpText();
  const tables = [...Object.values(launchTable), ...Object.values(settingsTable)] as Setting<unknown>[];
  for (const setting of tables) {
    if (setting.env !== undefined && !setting.isGiven) assert.ok(help.includes(setting.env), setting.env);
    for (const flag of setting.flags ?? []) {
      if ('isHidden' in flag) continue;
      for (const name of flag.names) assert.ok(help.includes(name), name);
    }
  }
  for (const name of foreignFlags.flatMap(({ names }) => names)) assert.ok(help.includes(name), name);
});

test('docs/reference is what scripts/generate-reference.mjs writes', () => {
  const page = (name: string) => readFileSync(join(packageRoot(), `docs/reference/${name}.md`), 'utf8');
  assert.equal(page('settings'), settingsReference());
  assert.equal(page('errors'), errorsReference());
});
