// horovodrun as users run it: what ranks get, what is shown and kept, and what is rejected.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { fixturePath, repository } from '../../test/support/repository.ts';
import { spawnRanks, startHorovodrun } from '../testing/spawn-ranks.ts';
import { allowedCores } from './spawn/allowed-cores.ts';

const fixture = (name: string) => fixturePath(`launch/${name}`);

function temporaryDirectory(t: { after(fn: () => void): void }): string {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-launch-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

async function horovodrun(args: readonly string[], env: NodeJS.ProcessEnv = {}, cwd?: string) {
  const run = startHorovodrun(args, { env, ...(cwd === undefined ? {} : { cwd }) });
  const { exitCode } = await run.ended;
  return { exitCode, stdout: run.stdout, stderr: run.stderr };
}

test('each rank gets its identity and the environment of the launcher', async () => {
  const result = await spawnRanks(2, fixture('environment.ts'), {
    args: ['--np', '7', 'a b'],
    flags: ['--fusion-threshold-mb', '1', '-H', 'localhost:4'],
    env: {
      TEST_KEPT: 'yes',
      CUDA_VISIBLE_DEVICES: '0',
      OLDPWD: '/',
      'BASH_FUNC_x%%': '() { :; }',
      HOROVOD_RANK: '9',
    },
  });
  assert.equal(result.exitCode, 0, result.stderr);
  for (const [rank, output] of result.ranks.entries()) {
    const [environment = '', args] = output.stdout.split('\n');
    // HOROVOD_FLIGHT_DIR is set by npm test.
    const { HOROVOD_RENDEZVOUS_ADDR, HOROVOD_JOB_ID, HOROVOD_FLIGHT_DIR, HOROVOD_TENSORBOARD_RUN, ...rest } =
      JSON.parse(environment) as Record<string, string>;
    assert.equal(HOROVOD_FLIGHT_DIR, process.env['HOROVOD_FLIGHT_DIR']);
    assert.match(String(HOROVOD_RENDEZVOUS_ADDR), /^127\.0\.0\.1:\d+$/);
    assert.match(String(HOROVOD_JOB_ID), /^\w+$/);
    assert.match(String(HOROVOD_TENSORBOARD_RUN), /^[\d_-]+-[0-9a-f]{4}$/);
    assert.deepEqual(rest, {
      HOROVOD_RANK: String(rank),
      HOROVOD_SIZE: '2',
      HOROVOD_LOCAL_RANK: String(rank),
      HOROVOD_LOCAL_SIZE: '2',
      HOROVOD_CROSS_RANK: '0',
      HOROVOD_CROSS_SIZE: '1',
      HOROVOD_HOSTNAME: 'localhost',
      HOROVOD_FUSION_THRESHOLD: '1048576',
      TEST_KEPT: 'yes',
      hasSecret: true,
    });
    assert.equal(args, 'arguments ["--np","7","a b"]');
  }
});

test('any command can be run, also one that knows nothing of Horovod', async () => {
  const { exitCode, stdout } = await horovodrun([
    '-np',
    '2',
    'sh',
    '-c',
    'echo "$HOROVOD_RANK of $HOROVOD_SIZE"',
  ]);
  assert.equal(exitCode, 0);
  assert.deepEqual(stdout.split('\n').sort(), ['', '[0]<stdout>:0 of 2', '[1]<stdout>:1 of 2']);
});

test('more ranks than cores: horovodrun says so once, and as many as there are is nothing to say', async () => {
  const cores = allowedCores();
  const crowded = await horovodrun(['-np', String(cores + 1), 'true']);
  assert.equal(crowded.exitCode, 0, crowded.stderr);
  assert.match(crowded.stderr, new RegExp(`^horovodrun: ${cores + 1} ranks share ${cores} cores?\\. .*\n$`));
  assert.equal((await horovodrun(['-np', String(cores), 'true'])).stderr, '');
});

test('stdout and stderr stay apart, each with its prefix', async () => {
  const { stdout, stderr } = await horovodrun([
    '-np',
    '1',
    'sh',
    '-c',
    'echo out; echo err >&2; printf part',
  ]);
  assert.equal(stdout, '[0]<stdout>:out\n[0]<stdout>:part');
  assert.equal(stderr, '[0]<stderr>:err\n');
});

test('--no-prefix-output shows lines as they are, -prefix-timestamp puts the time in front', async () => {
  const plain = await horovodrun(['-np', '1', '--no-prefix-output', 'echo', 'out']);
  assert.equal(plain.stdout, 'out\n');
  const timed = await horovodrun(['-np', '1', '-prefix-timestamp', 'echo', 'out']);
  assert.match(timed.stdout, /^\w{3} \w{3} \d\d \d\d:\d\d:\d\d \d{4} \[0\]<stdout>:out\n$/);
});

test('output of many megabytes arrives complete and in order', async () => {
  const script = 'for (let i = 0; i < 200000; i++) console.log("line " + i + " " + "€".repeat(20))';
  const { exitCode, stdout } = await horovodrun(['-np', '2', 'node', '-e', script]);
  assert.equal(exitCode, 0);
  for (const rank of [0, 1]) {
    const lines = stdout.split('\n').filter((line) => line.startsWith(`[${rank}]`));
    assert.equal(lines.length, 200_000);
    assert.ok(lines.every((line, i) => line === `[${rank}]<stdout>:line ${i} ${'€'.repeat(20)}`));
  }
});

test('--output-filename keeps the output of each rank as well, also of a single one', async (t) => {
  const directory = temporaryDirectory(t);
  const command = ['sh', '-c', 'echo "out $HOROVOD_RANK"; echo "err $HOROVOD_RANK" >&2'];
  const eleven = await horovodrun([
    '-np',
    '11',
    '--output-filename',
    join(directory, 'deep/logs'),
    ...command,
  ]);
  assert.equal(eleven.exitCode, 0, eleven.stderr);
  assert.match(eleven.stdout, /\[7\]<stdout>:out 7/);
  const read = (path: string) => readFileSync(join(directory, path), 'utf8');
  assert.equal(read('deep/logs/rank.07/stdout'), '[7]<stdout>:out 7\n');
  assert.equal(read('deep/logs/rank.10/stderr'), '[10]<stderr>:err 10\n');
  await horovodrun(['-np', '1', '--output-filename', join(directory, 'one'), ...command]);
  assert.equal(read('one/rank.0/stdout'), '[0]<stdout>:out 0\n');
});

test('an output directory that cannot be made is a usage error, and nothing is started', async (t) => {
  const directory = temporaryDirectory(t);
  writeFileSync(join(directory, 'file'), '');
  const args = [
    '-np',
    '1',
    '--output-filename',
    join(directory, 'file'),
    'touch',
    join(directory, 'started'),
  ];
  const { exitCode, stderr } = await horovodrun(args);
  assert.equal(exitCode, 2);
  assert.match(stderr, /--output-filename .*cannot be used/);
  assert.equal(existsSync(join(directory, 'started')), false);
});

test('a config file and a hostfile count', async (t) => {
  const directory = temporaryDirectory(t);
  writeFileSync(join(directory, 'c.yaml'), 'params:\n  cycle_time_ms: 7\n');
  writeFileSync(join(directory, 'hosts'), 'localhost slots=2\n');
  const args = ['-np', '2', '--config-file', 'c.yaml', '--hostfile', 'hosts', fixture('environment.ts')];
  const { exitCode, stdout, stderr } = await horovodrun(args, {}, directory);
  assert.equal(exitCode, 0, stderr);
  assert.match(stdout, /"HOROVOD_CYCLE_TIME":"7"/);
});

test('--verbose prints what is done, but never the secret', async () => {
  const script = 'echo "secret=$_HOROVOD_SECRET_KEY"';
  const { stdout, stderr } = await horovodrun(['-np', '1', '--verbose', 'sh', '-c', script]);
  const secret = /secret=([0-9a-f]{64})/.exec(stdout)?.[1] as string;
  assert.match(stderr, /horovodrun: job \w+: 1 rank, rendezvous at 127\.0\.0\.1:\d+/);
  assert.match(stderr, /rank 0 on localhost \(pid \d+\): sh -c/);
  assert.ok(!stderr.includes(secret));
});

test('the secret is in no command line of the job', async (t) => {
  if (!existsSync('/proc/self/cmdline')) return t.skip('no /proc here');
  const script = `tr '\\0' ' ' </proc/$PPID/cmdline; cat /proc/$$/cmdline | tr '\\0' ' '; echo; echo "secret=$_HOROVOD_SECRET_KEY"`;
  const { stdout } = await horovodrun(['-np', '1', 'sh', '-c', script]);
  const secret = /secret=([0-9a-f]{64})/.exec(stdout)?.[1] as string;
  assert.equal(stdout.split(secret).length, 2);
  return undefined;
});

for (const [args, expected] of [
  [['echo', 'x'], /-np \(the number of processes\) is missing/],
  [['-np', '2'], /the command to run is missing/],
  [['-np', 'many', 'echo'], /-np is "many"; expected an integer/],
  [['-np', '3', '-H', 'localhost:2', 'echo'], /-np 3 is more than the 2 slots on localhost:2/],
  [['-np', '2', '-H', 'localhost', 'echo'], /is not of the form HOST:SLOTS/],
  [['-np', '2', '-H', 'localhost:2,-oProxyCommand=x:2', 'echo'], /is not of the form HOST:SLOTS/],
  [['-np', '2', '--hostfile', '/nowhere/hosts', 'echo'], /cannot read the hostfile/],
  [['-np', '2', '--min-np', '3', 'echo'], /-np 2 is less than --min-np 3/],
  [['-np', '2', '--frobnicate', 'echo'], /unknown flag --frobnicate/],
  [
    ['-np', '2', '--network-interfaces', 'eth99', 'echo'],
    /eth99 matches no address of this machine\. It has lo/,
  ],
] as const) {
  test(`horovodrun ${args.join(' ')} is rejected in one line, with a hint and exit code 2`, async () => {
    const { exitCode, stdout, stderr } = await horovodrun(args);
    assert.equal(exitCode, 2);
    assert.equal(stdout, '');
    const [line, hint, ...rest] = stderr.split('\n');
    assert.match(String(line), expected);
    assert.match(hint ?? '', /^horovodrun: See `(npx )?horovodrun --help`\.$/);
    assert.deepEqual(rest, ['']);
  });
}

test('an unknown host is reported with its phase and what to do, and nothing is started', async (t) => {
  if (spawnSync('ssh', ['-V']).status !== 0) return t.skip('no ssh here');
  const args = ['-np', '2', '-H', 'localhost:1,no-such-host.invalid:1', 'echo', 'started'];
  const { exitCode, stdout, stderr } = await horovodrun(args);
  assert.equal(exitCode, 1);
  assert.equal(stdout, '');
  assert.match(stderr, /^horovodrun: the other host cannot be used; nothing was started:\n/);
  assert.match(
    stderr,
    /\n {2}no-such-host\.invalid \(name\): ssh says: .*resolve hostname.* Check the spelling/,
  );
  return undefined;
});

test('a tuning flag without meaning here gets a notice, and the job runs', async () => {
  const { exitCode, stdout, stderr } = await horovodrun(['-np', '1', '--cache-capacity', '5', 'echo', 'x']);
  assert.equal(exitCode, 0);
  assert.equal(stdout, '[0]<stdout>:x\n');
  assert.equal(stderr, 'horovodrun: --cache-capacity has no effect: there is no response cache.\n');
});

test('a wrong environment variable is reported once, before any rank starts', async () => {
  const { exitCode, stderr } = await horovodrun(['-np', '2', 'echo'], { HOROVOD_CYCLE_TIME: 'soon' });
  assert.equal(exitCode, 2);
  assert.equal(stderr.split('HOROVOD_CYCLE_TIME').length, 2);
});

test('--check-build shows what there is, and why not the rest', async () => {
  const { exitCode, stdout } = await horovodrun(['--check-build'], { HOROVOD_NATIVE: '0' });
  assert.equal(exitCode, 0);
  for (const heading of ['Available Frameworks:', 'Available Controllers:', 'Available Tensor Operations:']) {
    assert.ok(stdout.includes(`\n${heading}\n`), heading);
  }
  assert.match(stdout, /^Horovod for TypeScript v\d+\.\d+\.\d+/);
  assert.match(stdout, /\[ \] shm \(native\) \(HOROVOD_NATIVE=0\)/);
  assert.match(stdout, /\[X\] portable/);
  assert.match(stdout, /\[ \] native \(HOROVOD_NATIVE=0\)\n {4}\[X\] WebAssembly/);
  assert.match(stdout, /\[X\] TensorFlow\.js \(@tensorflow\/tfjs\)/);
  assert.match(stdout, /\[X\] jax-js/);
  for (const name of ['tcp (native)', 'MPI: Open MPI', 'MPI: MPICH', 'Gloo'])
    assert.ok(stdout.includes(`[ ] ${name} (HOROVOD_NATIVE=0)`), name);
  const verbose = await horovodrun(['-cb', '--verbose'], { HOROVOD_MPIRUN: 'no-such-mpirun' });
  assert.match(verbose.stdout, /^\nHorovod/);
  assert.match(verbose.stdout, /\[ \] MPI \(no-such-mpirun was not found on the PATH\)/);
  const off = await horovodrun(['--check-build'], { HOROVOD_NATIVE_KERNELS: '0' });
  assert.match(off.stdout, /\[ \] native \(HOROVOD_NATIVE_KERNELS=0\)/);
});

test('--version and --help go to stdout', async () => {
  const version = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')).version;
  assert.equal((await horovodrun(['--version'])).stdout, `${version}\n`);
  const help = await horovodrun(['--help']);
  assert.equal(help.exitCode, 0);
  assert.match(help.stdout, /^Usage: horovodrun -np N/);
  assert.equal(help.stderr, '');
});

test('a reader that leaves early ends the job', () => {
  const main = fileURLToPath(new URL('./main.js', import.meta.url));
  const script = `"$1" "$2" -np 2 "$1" -e "setInterval(() => console.log('y'), 1)" | head -n 1; echo "code \${PIPESTATUS[0]}"`;
  const { stdout } = spawnSync('bash', ['-c', script, 'bash', process.execPath, main], { encoding: 'utf8' });
  assert.match(stdout, /^\[\d\]<stdout>:y\ncode 141\n$/);
});

test('bin/horovodrun.js runs it, or says how to build it', async (t) => {
  const bin = join(repository, 'bin/horovodrun.js');
  const directory = temporaryDirectory(t);
  const copy = join(directory, 'horovodrun.mjs');
  writeFileSync(copy, readFileSync(bin));
  const alone = spawnSync(process.execPath, [copy, '--version'], { encoding: 'utf8' });
  assert.equal(alone.status, 1);
  assert.match(alone.stderr, /dist\/ is missing.*npm run build/);
  if (!existsSync(join(repository, 'dist/launch/main.js'))) return t.skip('dist/ is not built');
  const installed = spawnSync(process.execPath, [bin, '-np', '1', 'echo', 'x'], { encoding: 'utf8' });
  assert.equal(installed.stdout, '[0]<stdout>:x\n');
  return undefined;
});
