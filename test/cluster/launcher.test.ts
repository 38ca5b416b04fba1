// horovodrun on several hosts, over real ssh, with commands that know nothing of Horovod: what ranks get, what is shown,
// who learns of an end, and that nothing outlives anything.

import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Box,
  type BoxProcess,
  type BoxResult,
  canUseBox,
  type HostProcess,
  startBox,
} from '../support/box.ts';
import { fixturePath, repository, sourcePath } from '../support/repository.ts';

const skip = canUseBox() ?? false;
const launcher = join(repository, 'dist/launch/main.js');
const fixture = (name: string) => fixturePath(`launch/${name}`);
const three = ['-np', '6', '-H', 'host1:2,host2:2,host3:2'];
const two = ['-np', '2', '-H', 'host1:1,host2:1'];
/** For what is promised within two seconds, on a machine with more to do. */
const soonMs = 8000;

describe('horovodrun on several hosts', { skip }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 3, ipv6: true });
  });
  afterEach(async () => {
    await box.repair();
    await box.assertNothingLeft();
  });
  after(() => box.close());

  interface More {
    readonly env?: NodeJS.ProcessEnv;
    readonly cwd?: string;
  }
  const start = (args: readonly string[], more: More = {}): BoxProcess =>
    box.start('host1', [process.execPath, launcher, ...args], more);
  const run = (args: readonly string[], more: More = {}): Promise<BoxResult> =>
    start(args, more).endedWithin(60_000);
  /** A job of which every rank waits for ever, when all do. */
  const waiting = async (flags: readonly string[], more: More = {}): Promise<BoxProcess> => {
    const job = start([...flags, fixture('wait.ts')], more);
    const ranks = Number(flags[flags.indexOf('-np') + 1]);
    for (let rank = 0; rank < ranks; rank++) {
      await job.waitForOutput(new RegExp(`^\\[${rank}\\]<stdout>:ready`, 'm'));
    }
    return job;
  };
  const kill = (host: string, pattern: RegExp): void => {
    const found = box.processesOn(host).filter(({ command }) => pattern.test(command));
    assert.equal(found.length, 1, `${host}: ${JSON.stringify(box.processesOn(host))}`);
    for (const { pid } of found) process.kill(pid, 'SIGKILL');
  };

  test('3 hosts × 2 ranks: each rank runs where it belongs, and output looks as on one host', async () => {
    const script = 'echo "$HOROVOD_RANK of $HOROVOD_SIZE on $(hostname)"; echo "err $HOROVOD_LOCAL_RANK" >&2';
    const { exitCode, stdout, stderr } = await run([...three, 'sh', '-c', script]);
    assert.equal(exitCode, 0, stderr);
    const lines = (text: string) => text.trimEnd().split('\n').sort();
    const ranks = [0, 1, 2, 3, 4, 5];
    const hostOf = (rank: number) => `host${Math.floor(rank / 2) + 1}`;
    assert.deepEqual(
      lines(stdout),
      ranks.map((rank) => `[${rank}]<stdout>:${rank} of 6 on ${hostOf(rank)}`),
    );
    assert.deepEqual(
      lines(stderr),
      ranks.map((rank) => `[${rank}]<stderr>:err ${rank % 2}`),
    );
  });

  test('a hostfile, words of any kind, the directory and the environment arrive as they are', async () => {
    const directory = join(box.shared, "it's a $(place)");
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'hosts'), 'host1 slots=1\nhost2 slots=1 # the other\n');
    const words = ['a b', "it's", '$HOME', '"', '\\', '!x', '', 'ä\nb'];
    const { exitCode, stdout, stderr } = await run(
      ['-np', '2', '--hostfile', 'hosts', fixture('remote-environment.ts'), ...words],
      { cwd: directory, env: { TEST_WORDS: "it's\n$HOME !", HISTFILE: '/nowhere', HOME: '/made-up' } },
    );
    assert.equal(exitCode, 0, stderr);
    const seen = stdout
      .trimEnd()
      .split('\n')
      .sort()
      .map((line) => JSON.parse(line.replace(/^\[\d\]<stdout>:/, '')) as Record<string, unknown>);
    for (const [rank, each] of seen.entries()) {
      const host = `host${rank + 1}`;
      const expected = { HOROVOD_RANK: String(rank), HOROVOD_HOSTNAME: host, host, directory, args: words };
      assert.deepEqual({ ...each, ...expected, TEST_WORDS: "it's\n$HOME !" }, each);
    }
    // HOME is that of the login there; nothing of the login that carries the job is shown.
    assert.deepEqual([seen[0]?.['HOME'], seen[1]?.['HOME']], ['/made-up', process.env['HOME'] ?? '/root']);
    assert.equal(seen[1]?.['SSH_CONNECTION'], undefined);
    // At loopback of another host, somebody else may listen at that port.
    const addresses = String(seen[1]?.['HOROVOD_RENDEZVOUS_ADDR']);
    assert.match(addresses, /^10\./);
    assert.doesNotMatch(addresses, /127\.|\[::1\]|localhost/);
  });

  test('megabytes of output of several hosts arrive complete and in order, also in files', async () => {
    const folder = join(box.shared, 'logs');
    const count = 30_000;
    const script = `for (let i = 0; i < ${count}; i++) console.log("line " + i + " " + "€".repeat(20))`;
    const flags = ['-np', '2', '-H', 'host2:1,host3:1', '--output-filename', folder];
    const { exitCode, stdout, stderr } = await run([...flags, process.execPath, '-e', script]);
    assert.equal(exitCode, 0, stderr);
    for (const rank of [0, 1]) {
      const lines = stdout.split('\n').filter((line) => line.startsWith(`[${rank}]`));
      assert.equal(lines.length, count);
      assert.ok(lines.every((line, i) => line === `[${rank}]<stdout>:line ${i} ${'€'.repeat(20)}`));
      assert.equal(readFileSync(join(folder, `rank.${rank}/stdout`), 'utf8'), `${lines.join('\n')}\n`);
    }
  });

  test('TypeScript needs no build step there either', async () => {
    const { exitCode, stdout, stderr } = await run([
      '-np',
      '1',
      '-H',
      'host2:1',
      sourcePath('launch/typed.ts'),
    ]);
    assert.equal(exitCode, 0, stderr);
    assert.match(stdout, /^\[0\]<stdout>:HELLO FROM RANK 0\n/);
  });

  test('a login shell that greets does no harm', async (t) => {
    const rc = join(box.shared, 'bashrc');
    writeFileSync(rc, 'echo "Welcome to $(hostname)!"; echo "quota: 3 %" >&2; printf "no newline"\n');
    // Only host2 sees the other file; the disk below is that of this machine.
    const own = join(homedir(), '.bashrc');
    if (!existsSync(own)) {
      writeFileSync(own, '');
      t.after(() => rmSync(own));
    }
    const covered = await box.exec('host2', ['mount', '--bind', rc, own]);
    assert.equal(covered.exitCode, 0, covered.stderr);
    try {
      const { exitCode, stdout, stderr } = await run([...two, 'sh', '-c', 'echo hi']);
      assert.deepEqual(
        [exitCode, stdout.split('\n').sort()],
        [0, ['', '[0]<stdout>:hi', '[1]<stdout>:hi']],
        stderr,
      );
    } finally {
      await box.exec('host2', ['umount', own]);
    }
  });

  test('hosts by IPv6 address', async () => {
    const args = [
      '-np',
      '2',
      '-H',
      '[fd77::1]:1,[fd77::3]:1',
      'sh',
      '-c',
      'echo "$HOROVOD_HOSTNAME is $(hostname)"',
    ];
    const { exitCode, stdout, stderr } = await run(args);
    assert.equal(exitCode, 0, stderr);
    assert.deepEqual(stdout.trimEnd().split('\n').sort(), [
      '[0]<stdout>:fd77::1 is host1',
      '[1]<stdout>:fd77::3 is host3',
    ]);
  });

  test('the remote shell of Open MPI is used where one is set, as MPI jobs of Kubernetes have it', async () => {
    const shell = join(box.shared, 'kubexec.sh');
    writeFileSync(shell, '#!/bin/sh\necho "by kubexec to $1" >&2\nhost=$1; shift\nexec ssh "$host" "$@"\n');
    chmodSync(shell, 0o755);
    const env = { OMPI_MCA_plm_rsh_agent: shell };
    const good = await run([...two, 'hostname'], { env });
    assert.deepEqual(
      [good.exitCode, good.stdout.split('\n').sort()],
      [0, ['', '[0]<stdout>:host1', '[1]<stdout>:host2']],
    );
    writeFileSync(shell, '#!/bin/sh\nhost=$1; shift\nexec ssh -n "$host" "$@"\n');
    const bad = await run([...two, 'sleep', '1000'], { env });
    assert.equal(bad.exitCode, 1);
    assert.match(
      bad.stderr,
      /host2 .*got no input: .*kubexec\.sh must pass stdin on \(kubectl exec needs -i\)/,
    );
  });

  test('all hosts that cannot be used are reported together', async () => {
    const { exitCode, stdout, stderr } = await run([
      '-np',
      '4',
      '-H',
      'host1:1,host8:1,host2:1,host9:1',
      'echo',
      'x',
    ]);
    assert.deepEqual([exitCode, stdout], [1, '']);
    assert.match(
      stderr,
      /2 of 3 other hosts cannot be used; nothing was started:\n {2}host8 \(name\).*\n {2}host9 \(name\)/,
    );
  });

  test('the report of the first failure has its host and last words, and peers know its exit code', async () => {
    const { exitCode, stdout, stderr } = await run([...three, fixture('host-control-block.ts')]);
    assert.equal(exitCode, 3, stderr);
    assert.match(stderr, /First failure:\n {2}rank 5 on host3 \(pid \d+\) exited with code 3/);
    assert.match(stderr, /Its error:\n {4}TypeError: cannot read the moon\n/);
    assert.match(stderr, /rank 1 on host1 \(pid \d+\) was stopped by horovodrun \(SIGTERM\)/);
    assert.match(stdout, /^\[4\]<stdout>:exit \{"code":3\}$/m);
  });

  test('a command that one host does not have', async () => {
    const tool = join(box.shared, 'tool');
    writeFileSync(tool, '#!/bin/sh\nexec sleep 1000\n');
    chmodSync(tool, 0o755);
    await box.without('host2', tool);
    const { exitCode, stderr } = await run([...two, tool]);
    assert.match(stderr, /rank 1 on host2 .*(could not be started: .*tool|exited with code)/);
    assert.notEqual(exitCode, 0);
  });

  test('--pin-cores counts on each host', async () => {
    const { exitCode, stdout, stderr } = await run([
      '-np',
      '2',
      '-H',
      'host2:2',
      '--pin-cores',
      fixture('cores.ts'),
    ]);
    assert.equal(exitCode, 0, stderr);
    const cores = stdout.match(/"first":"[^"]+"/g) ?? [];
    assert.equal(cores.length, 2, stdout);
    if (!/share 1 core/.test(stderr)) assert.notEqual(cores[0], cores[1]);
  });

  test('Ctrl-C reaches the ranks of all hosts; the second one ends those that ignore it', async () => {
    const job = start([...three, fixture('wait.ts'), 'SIGINT']);
    for (let rank = 0; rank < 6; rank++) await job.waitForOutput(new RegExp(`\\[${rank}\\]<stdout>:ready`));
    job.kill('SIGINT');
    for (let rank = 0; rank < 6; rank++)
      await job.waitForOutput(new RegExp(`\\[${rank}\\]<stdout>:ignored SIGINT`));
    job.kill('SIGINT');
    assert.equal((await job.endedWithin(soonMs)).exitCode, 130);
  });

  test('the launcher is killed: nothing outlives it', async () => {
    const job = await waiting(three);
    job.kill('SIGKILL');
    await box.assertNothingLeft(soonMs);
  });

  test('its ssh is killed: the host counts as lost, and its ranks end', async () => {
    const job = await waiting(two);
    kill('host1', /^ssh /);
    const { exitCode, stderr } = await job.endedWithin(soonMs);
    assert.equal(exitCode, 1, stderr);
    assert.match(stderr, /host2 was lost, with rank 1: its connection ended \(ssh was killed by SIGKILL\)/);
    await box.assertNothingLeft(soonMs);
  });

  test('an agent is killed: its ranks end with it, and the job', async () => {
    const job = await waiting(three);
    kill('host3', /node \S*agent\/main\.js$/);
    const { exitCode, stderr } = await job.endedWithin(soonMs);
    assert.equal(exitCode, 1, stderr);
    assert.match(
      stderr,
      /host3 was lost, with ranks 4, 5: its agent was killed, or its connection broke \(ssh exited with code 255\)/,
    );
    assert.match(stderr, /rank 2 on host2 \(pid \d+\) was stopped by horovodrun/);
    await box.assertNothingLeft(soonMs);
  });

  const isSilent =
    /host2 was lost, with rank 1: no message from its agent for 2 s \(the network is down, or the machine is frozen or down\)/;

  test('a host that is frozen is lost after the time given; when it goes on, its ranks end', async () => {
    const job = await waiting([...two, '--peer-timeout-seconds', '2']);
    await box.freeze('host2');
    const { exitCode, stderr } = await job.endedWithin(2000 + soonMs);
    assert.equal(exitCode, 1, stderr);
    assert.match(stderr, isSilent);
    await box.thaw('host2');
    await box.assertNothingLeft(soonMs);
  });

  test('a host that is cut off is lost after the time given, and ends its ranks by itself', async () => {
    const job = await waiting([...two, '--peer-timeout-seconds', '2']);
    await box.cut('host2');
    const { exitCode, stderr } = await job.endedWithin(2000 + soonMs);
    assert.equal(exitCode, 1, stderr);
    assert.match(stderr, isSilent);
    const isSession = ({ command }: HostProcess) => /^sshd: \S+@notty/.test(command);
    const deadline = performance.now() + 2000 + soonMs;
    while (!box.processesOn('host2').every(isSession)) {
      assert.ok(performance.now() < deadline, JSON.stringify(box.processesOn('host2')));
      await sleep(50);
    }
    // sshd itself waits for the network; it would end, but only after minutes.
    for (const { pid } of box.processesOn('host2')) process.kill(pid, 'SIGKILL');
  });

  test('what a remote rank leaves running in the background ends with the job', async () => {
    const { exitCode, stderr } = await run([...two, 'sh', '-c', 'sleep 1000 & exit 0']);
    assert.equal(exitCode, 0, stderr);
    assert.deepEqual(box.processesOn('host2'), []);
  });

  test('the secret is in no command line of any host, and --verbose does not tell it', async () => {
    const script = 'echo "secret=$_HOROVOD_SECRET_KEY"; sleep 1000';
    const job = start([...two, '--verbose', 'sh', '-c', script]);
    const [, secret = 'none'] = await job.waitForOutput(/\[1\]<stdout>:secret=([0-9a-f]{64})/);
    const commands = box.hosts.flatMap((host) => box.processesOn(host).map(({ command }) => command));
    assert.ok(commands.some((command) => command.includes('agent/main.js')));
    assert.deepEqual(
      commands.filter((command) => command.includes(secret)),
      [],
    );
    job.kill('SIGTERM');
    const { stderr } = await job.endedWithin(soonMs);
    assert.ok(!stderr.includes(secret));
    assert.match(stderr, /agent on host2 \(host2, pid \d+, Node \S+\): ssh \d+ ms, hello \d+ ms/);
  });
});
