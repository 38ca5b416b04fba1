// What ssh is asked to do, what a shell makes of it, and what is concluded from how it ends.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { describeProblems, type Evidence, hostProblem, versionProblem } from './host-problem.ts';
import { parseRemoteShell, quoted, remoteCommand, sshCommand } from './ssh-command.ts';

const connectTimeoutMs = 10_000;

describe('the command for ssh', () => {
  test('never asks, and takes the host for nothing but a host', () => {
    const { file, args } = sshCommand('host2', 'true', { connectTimeoutMs: 2500 });
    assert.equal(file, 'ssh');
    assert.deepEqual(args.slice(-3), ['--', 'host2', 'true']);
    assert.ok(args.includes('BatchMode=yes'));
    assert.ok(args.includes('ConnectTimeout=3'));
  });

  test('has port and identity', () => {
    const { args } = sshCommand('h', 'true', { connectTimeoutMs, port: 2222, identityFile: '/a key' });
    assert.match(args.join('|'), /\|-p\|2222\|-i\|\/a key\|--\|h\|true$/);
  });

  test('another remote shell gets host and command alone; one that is ssh gets all', () => {
    const kubexec = sshCommand('pod', 'true', {
      connectTimeoutMs,
      remoteShell: ['/etc/mpi/kubexec.sh', '-q'],
    });
    assert.deepEqual(kubexec, { file: '/etc/mpi/kubexec.sh', args: ['-q', 'pod', 'true'] });
    const ssh = sshCommand('h', 'true', { connectTimeoutMs, port: 3, remoteShell: ['/opt/bin/ssh', '-4'] });
    assert.equal(ssh.file, '/opt/bin/ssh');
    assert.match(ssh.args.join(' '), /^-4 .*-p 3 -- h true$/);
  });

  for (const [text, expected] of [
    [undefined, undefined],
    ['', undefined],
    ['/etc/mpi/kubexec.sh', ['/etc/mpi/kubexec.sh']],
    ['ssh : rsh', ['ssh']],
    ['ssh -q: rsh', ['ssh', '-q']],
  ] as const) {
    test(`OMPI_MCA_plm_rsh_agent=${JSON.stringify(text)}`, () => {
      assert.deepEqual(parseRemoteShell(text), expected);
    });
  }
});

describe('the line that runs there', () => {
  const at = (t: { after(fn: () => void): void }) => {
    const directory = mkdtempSync(join(tmpdir(), "it's a $HOME "));
    t.after(() => rmSync(directory, { recursive: true }));
    const agent = join(directory, 'agent.mjs');
    writeFileSync(agent, 'console.log("agent in " + process.cwd());');
    return { directory, agent, node: process.execPath };
  };
  const run = (command: string, env: NodeJS.ProcessEnv = process.env) =>
    spawnSync('/bin/sh', ['-c', command], { encoding: 'utf8', env });

  test('starts the agent in the directory, whatever its name', (t) => {
    const { directory, agent, node } = at(t);
    const command = remoteCommand({ directory, node, agents: ['/nowhere/agent.js', agent] });
    assert.equal(run(command).stdout, `horovod-agent shell\nagent in ${directory}\n`);
    assert.doesNotMatch(command, /[!\n]/, 'some login shells take these for their own');
  });

  test('takes the node of the PATH where this one is not', (t) => {
    const { directory, agent } = at(t);
    const command = remoteCommand({ directory, node: '/nowhere/node', agents: [agent] });
    const env = { PATH: join(process.execPath, '..') };
    assert.equal(run(command, env).stdout, `horovod-agent shell\nagent in ${directory}\n`);
  });

  test('says what is missing', (t) => {
    const { directory, agent, node } = at(t);
    const problem = (places: Parameters<typeof remoteCommand>[0], env?: NodeJS.ProcessEnv) => {
      const { status, stdout } = run(remoteCommand(places), env);
      assert.equal(status, 3);
      return /^horovod-agent shell\nhorovod-agent problem (.*)\n$/.exec(stdout)?.[1];
    };
    assert.equal(problem({ directory: '/nowhere', node, agents: [agent] }), 'no-directory');
    const bare = { PATH: '/nowhere' };
    assert.equal(problem({ directory, node: '/no/node', agents: [agent] }, bare), 'no-node /nowhere');
    assert.equal(problem({ directory, node, agents: ['/a', '/b'] }), 'no-package');
  });

  test('quotes any word', () => {
    const words = ['a b', "it's", '$HOME', '`x`', '"', '\\', '', "''", 'ä\nb'];
    const { stdout } = run(`printf '%s|' ${words.map(quoted).join(' ')}`);
    assert.equal(stdout, words.map((word) => `${word}|`).join(''));
  });
});

describe('why a host cannot be used', () => {
  const evidence = (more: Partial<Evidence>): Evidence => ({
    host: 'host2',
    tryByHand: 'ssh -p 2222 host2',
    directory: '/project',
    stderr: '',
    hasShell: false,
    agentPath: '/opt/horovod/dist/launch/agent/main.js',
    end: { code: 255 },
    waitedMs: 30_000,
    connectTimeoutMs,
    ...more,
  });
  const changed = `@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Host key verification failed.`;
  const loggedIn = { hasShell: true, end: { code: 3 } };
  const oldNode = `/opt/horovod/dist/launch/agent/main.js:5
import('./agent.js')
^^^^^^
SyntaxError: Unexpected token 'import'`;

  const cases: readonly [string, Partial<Evidence>, string, RegExp, RegExp][] = [
    [
      'a name nobody knows',
      { stderr: 'ssh: Could not resolve hostname host2: Name or service not known' },
      ...(['name', /Name or service not known/, /spelling of host2 in -H/] as const),
    ],
    [
      'a key that is rejected',
      { stderr: 'Quota: 3 %\r\nroot@host2: Permission denied (publickey).\r\n' },
      ...(['login', /Permission denied \(publickey\)/, /ssh-copy-id host2.*--ssh-identity-file/] as const),
    ],
    [
      'a host key nobody has confirmed',
      {
        stderr:
          'No ED25519 host key is known for host2 and you have requested strict checking.\nHost key verification failed.',
      },
      ...(['host key', /No ED25519 host key is known/, /`ssh -p 2222 host2`.*accept-new/] as const),
    ],
    [
      'a host key that has changed',
      { stderr: changed },
      ...(['host key', /IDENTIFICATION HAS CHANGED/, /ssh-keygen -R host2/] as const),
    ],
    [
      'nobody on that port',
      { stderr: 'ssh: connect to host host2 port 2222: Connection refused' },
      ...(['network', /Connection refused/, /Start sshd on host2.*--ssh-port/] as const),
    ],
    [
      'no way there',
      { stderr: 'ssh: connect to host host2 port 22: No route to host' },
      ...(['network', /No route to host/, /firewall/] as const),
    ],
    [
      'a server that hangs up',
      { stderr: 'kex_exchange_identification: read: Connection reset by peer' },
      ...(['ssh', /kex_exchange/, /MaxStartups/] as const),
    ],
    [
      'a login that hangs',
      { end: undefined },
      ...(['login', /ssh connected, but .* within 30 s/, /\.bashrc/] as const),
    ],
    [
      'no answer at all',
      { end: undefined, connectTimeoutMs: 30_000 },
      ...(['network', /within 30 s/, /--start-timeout/] as const),
    ],
    [
      'an end nobody has foreseen',
      { stderr: 'hm\nsomething new\n' },
      ...(['ssh', /ended with code 255: something new/, /ssh -p 2222 host2 true/] as const),
    ],
    [
      'no ssh on this machine',
      { spawnError: Object.assign(new Error('spawn ssh ENOENT'), { code: 'ENOENT' }) },
      ...(['ssh', /ssh was not found on this machine/, /Install an ssh client/] as const),
    ],
    [
      'no such directory',
      { ...loggedIn, problem: { word: 'no-directory', rest: '' } },
      ...(['directory', /the directory \/project does not exist/, /NFS/] as const),
    ],
    [
      'no Node',
      { ...loggedIn, problem: { word: 'no-node', rest: '/usr/bin:/bin' } },
      ...(['Node', /Node was not found.*\/usr\/bin:\/bin/, /20\.19 or later on host2/] as const),
    ],
    [
      'a Node that is too old',
      { ...loggedIn, problem: { word: 'node-too-old', rest: '18.20.8 /usr/bin/node' } },
      ...(['Node', /Node 18\.20\.8 \(\/usr\/bin\/node\) is too old/, /20\.19/] as const),
    ],
    [
      'a Node so old that it cannot read the agent',
      { hasShell: true, end: { code: 1 }, stderr: oldNode },
      ...(['Node', /Node is too old to run the agent: SyntaxError/, /20\.19/] as const),
    ],
    [
      'no package',
      { ...loggedIn, problem: { word: 'no-package', rest: '' } },
      ...(['package', /not found at \/opt\/horovod or in \/project\/node_modules/, /npm install/] as const),
    ],
    [
      'half a package',
      {
        hasShell: true,
        end: { code: 1 },
        stderr: "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'yaml'\n  at x\nNode.js v20",
      },
      ...(['package', /incomplete: .*'yaml'/, /npm ci/] as const),
    ],
    [
      'an agent that says nothing',
      { hasShell: true, end: undefined },
      ...(['agent', /did not answer within 30 s/, /overloaded/] as const),
    ],
    [
      'an agent that is killed',
      { hasShell: true, end: { code: 137 }, stderr: 'Killed\n' },
      ...(['agent', /ended with code 137: Killed/, /node --version/] as const),
    ],
  ];
  for (const [title, more, phase, seen, advice] of cases) {
    test(title, () => {
      const problem = hostProblem(evidence(more));
      assert.equal(problem.phase, phase);
      assert.match(problem.seen, seen);
      assert.match(problem.advice, advice);
      assert.match(describeProblems([problem], 2), /^1 of 2 other hosts .*\n {2}host2 \(.*\): .*[.?]$/);
    });
  }

  test('another version, or another build of the same', () => {
    const own = { version: '1.0.0', protocol: 1 };
    assert.equal(versionProblem('h', own, own), undefined);
    assert.match(
      versionProblem('h', own, { version: '0.9.0', protocol: 1 })?.seen ?? '',
      /0\.9\.0, but this machine has 1\.0\.0/,
    );
    assert.match(versionProblem('h', own, { version: '1.0.0', protocol: 2 })?.seen ?? '', /another build/);
  });
});
