// Hosts in a box, for tests: test/cluster/cluster-in-a-box.sh gives each host its own network, process ids, /dev/shm, /tmp and sshd
// on this machine, and injects faults. startBox() starts hosts. A Box runs commands on them, checks what they have left behind,
// and removes them. This needs root on Linux; canUseBox() says what is missing.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { accessSync, constants, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { repository } from './repository.ts';

export interface BoxOptions {
  /** Their names are host1, host2, … */
  readonly hosts: number;
  /** Every host also gets a docker0 with the same address, to catch code that chooses interfaces by name. */
  readonly decoy?: boolean;
  /** true: also fd77::N; 'only': no IPv4 between hosts. */
  readonly ipv6?: boolean | 'only';
  /** A second network, 10.78.0.N on eth1. */
  readonly secondSubnet?: boolean;
  /** A Slurm cluster on all of them. */
  readonly slurm?: boolean;
}

export interface BoxCommandOptions {
  /** Added to the environment of this process. */
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
}

export interface BoxExecOptions extends BoxCommandOptions {
  /** After this time the command is killed, and exec() rejects with its output. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface BoxResult {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that runs on a host. */
export interface BoxProcess {
  readonly child: ChildProcess;
  /** The output so far. */
  readonly stdout: string;
  readonly stderr: string;
  /** Settles when the command has exited and all its output was read. */
  readonly ended: Promise<BoxResult>;
  /** The same, but rejects with the transcript if it takes longer. */
  endedWithin(ms: number): Promise<BoxResult>;
  /** Resolves with the first match in the output. Rejects with the transcript at the end of the output or at the deadline. */
  waitForOutput(pattern: RegExp, stream?: 'stdout' | 'stderr', timeoutMs?: number): Promise<RegExpExecArray>;
  /** Signals the command itself, not the program that runs it on the host. */
  kill(signal: NodeJS.Signals): void;
}

/** A process of a host, as seen from this machine. */
export interface HostProcess {
  readonly pid: number;
  readonly command: string;
}

export interface Box {
  readonly name: string;
  readonly hosts: readonly string[];
  /** A folder that this machine and all hosts share. It is removed with the box. */
  readonly shared: string;
  exec(host: string, argv: readonly string[], options?: BoxExecOptions): Promise<BoxResult>;
  start(host: string, argv: readonly string[], options?: BoxCommandOptions): BoxProcess;
  /** Powers the host off: all processes die at once, without sending a FIN. */
  crash(host: string): Promise<void>;
  boot(host: string): Promise<void>;
  /** Stops all processes of the host, like a machine that hangs. */
  freeze(host: string): Promise<void>;
  thaw(host: string): Promise<void>;
  /** Unplugs the network cable: packets are lost. */
  cut(host: string): Promise<void>;
  heal(host: string): Promise<void>;
  /** '1gbit', '100mbit', … in both directions, or 'off'. */
  rate(host: string, rate: string): Promise<void>;
  /** Milliseconds each way, or 'off'. */
  delay(host: string, ms: number | 'off'): Promise<void>;
  /** Per cent of what the host receives, or 'off'. */
  loss(host: string, percent: number | 'off'): Promise<void>;
  /** Drops all packets between two hosts; 'one-way': only those from the first to the second. */
  block(from: string, to: string, direction?: 'both' | 'one-way'): Promise<void>;
  unblock(): Promise<void>;
  /** Hides a file from the host. */
  without(host: string, file: string): Promise<void>;
  /** The processes of the host, except init, sshd and its sessions, and the daemons of Slurm. */
  processesOn(host: string): readonly HostProcess[];
  /** Names of the files in its /dev/shm. */
  shmOf(host: string): readonly string[];
  /** Fails if a running host still has processes or shared memory of a job after `withinMs`. */
  assertNothingLeft(withinMs?: number): Promise<void>;
  /** Removes all faults and restarts crashed hosts, for the next test of the file. */
  repair(): Promise<void>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const script = join(repository, 'test/cluster/cluster-in-a-box.sh');
const slurmScript = join(repository, 'test/cluster/slurm-in-a-box.sh');
const stateFolder = '/var/tmp/ciab';
/** Only for commands that hang. */
const patienceMs = 60_000;
const sbin = ['/usr/local/sbin', '/usr/sbin', '/sbin'];

/** Why hosts in a box cannot run here; undefined if they can. */
export function canUseBox(needs: { slurm?: boolean; commands?: readonly string[] } = {}): string | undefined {
  if (process.platform !== 'linux') return `hosts in a box need Linux, this is ${process.platform}`;
  if (process.getuid?.() !== 0) return 'hosts in a box need root';
  const wanted = ['ip', 'unshare', 'nsenter', 'setpriv', 'pgrep', 'ssh', 'sshd', 'ssh-keygen', 'nft', 'bash'];
  if (needs.slurm) wanted.push('slurmctld', 'slurmd', 'srun', 'munged');
  const missing = [...wanted, ...(needs.commands ?? [])].filter((name) => !hasCommand(name));
  if (missing.length > 0) return `hosts in a box need ${missing.join(', ')}`;
  const namespaces = spawnSync('unshare', ['-n', '-u', '-m', '-i', '-p', '-f', 'true'], { encoding: 'utf8' });
  return namespaces.status === 0
    ? undefined
    : `namespaces are not allowed here: ${namespaces.stderr.trim() || namespaces.error}`;
}

function hasCommand(name: string): boolean {
  return [...(process.env['PATH'] ?? '').split(delimiter), ...sbin].some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Starts the hosts. Call close() even if a test fails. */
export async function startBox(options: BoxOptions): Promise<Box> {
  takeDownAbandoned();
  const name = newName();
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    PATH: [process.env['PATH'] ?? '', ...sbin].join(delimiter),
    CIAB: name,
    CIAB_DECOY: options.decoy ? '1' : '',
    CIAB_IPV6: options.ipv6 === 'only' ? 'only' : options.ipv6 ? '1' : '',
    CIAB_SUBNET2: options.secondSubnet ? '1' : '',
    CIAB_SHARED_TMP: repository.startsWith('/tmp/') ? '1' : '',
  };
  const hosts = Array.from({ length: options.hosts }, (_, index) => `host${index + 1}`);
  const takeDown = () => {
    spawnSync('bash', [script, 'down'], { env, stdio: 'ignore' });
  };
  process.once('exit', takeDown);
  try {
    await command(env, [script, 'up', String(options.hosts)]);
    if (options.slurm) await command(env, [slurmScript]);
  } catch (error) {
    process.off('exit', takeDown);
    takeDown();
    throw error;
  }
  const ciab = async (...args: string[]): Promise<void> => {
    await command(env, [script, ...args]);
  };
  const faults = new Set<string>();
  const fault = async (undo: string, ...args: string[]): Promise<void> => {
    faults.add(undo);
    await ciab(...args);
  };
  const lifted = async (undo: string): Promise<void> => {
    faults.delete(undo);
    await ciab(...undo.split(' '));
  };
  const running = new Set<BoxProcess>();
  const start = (
    host: string,
    argv: readonly string[],
    { env: more = {}, cwd }: BoxCommandOptions = {},
  ): BoxProcess => {
    const child = spawn('bash', [script, 'exec', host, ...argv], {
      env: { ...env, ...more },
      cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const started = follow(child, argv.join(' '));
    running.add(started);
    void started.ended.then(() => running.delete(started));
    return started;
  };
  const box: Box = {
    name,
    hosts,
    shared: join(stateFolder, name, 'shared'),
    start,
    async exec(host, argv, { timeoutMs = patienceMs, signal, ...rest } = {}) {
      const started = start(host, argv, rest);
      const abort = () => started.kill('SIGKILL');
      signal?.addEventListener('abort', abort, { once: true });
      try {
        return await started.endedWithin(timeoutMs);
      } finally {
        signal?.removeEventListener('abort', abort);
      }
    },
    crash: (host) => fault(`boot ${host}`, 'crash', host),
    boot: (host) => lifted(`boot ${host}`),
    freeze: (host) => fault(`thaw ${host}`, 'freeze', host),
    thaw: (host) => lifted(`thaw ${host}`),
    cut: (host) => fault(`heal ${host}`, 'cut', host),
    heal: (host) => lifted(`heal ${host}`),
    rate: (host, rate) =>
      rate === 'off' ? lifted(`rate ${host} off`) : fault(`rate ${host} off`, 'rate', host, rate),
    delay: (host, ms) =>
      ms === 'off' ? lifted(`delay ${host} off`) : fault(`delay ${host} off`, 'delay', host, String(ms)),
    loss: (host, percent) =>
      percent === 'off'
        ? lifted(`loss ${host} off`)
        : fault(`loss ${host} off`, 'loss', host, String(percent)),
    block: (from, to, direction = 'both') =>
      fault('unblock', direction === 'both' ? 'block' : 'block1', from, to),
    unblock: () => lifted('unblock'),
    without: (host, file) => ciab('without', host, file),
    processesOn: (host) => processesOn(name, host),
    shmOf: (host) => shmOf(name, host),
    async assertNothingLeft(withinMs = 20_000) {
      const deadline = performance.now() + withinMs;
      for (;;) {
        const left = hosts.filter((host) => initOf(name, host) !== undefined).flatMap(leftOn);
        if (left.length === 0) return;
        assert.ok(performance.now() < deadline, `left behind:\n${left.join('\n')}`);
        await sleep(20);
      }
    },
    async repair() {
      for (const undo of [...faults].sort()) await lifted(undo);
    },
    async close() {
      process.off('exit', takeDown);
      for (const each of running) each.child.kill('SIGKILL');
      await ciab('down');
      await Promise.all([...running].map((each) => each.ended));
    },
    [Symbol.asyncDispose]: () => box.close(),
  };
  const leftOn = (host: string): string[] => [
    ...box.processesOn(host).map(({ pid, command: text }) => `${host}: process ${pid}: ${text}`),
    ...box.shmOf(host).map((file) => `${host}: /dev/shm/${file}`),
  ];
  return box;
}

function follow(child: ChildProcess, title: string): BoxProcess {
  const pieces = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  child.stdout?.on('data', (piece: Buffer) => pieces.stdout.push(piece));
  child.stderr?.on('data', (piece: Buffer) => pieces.stderr.push(piece));
  const followed: BoxProcess = {
    child,
    get stdout() {
      return Buffer.concat(pieces.stdout).toString('utf8');
    },
    get stderr() {
      return Buffer.concat(pieces.stderr).toString('utf8');
    },
    ended: new Promise((resolve) => {
      child.once('close', (exitCode) => {
        resolve({ exitCode, stdout: followed.stdout, stderr: followed.stderr });
      });
    }),
    async endedWithin(ms) {
      const result = await within(followed.ended, ms);
      if (result !== undefined) return result;
      followed.kill('SIGKILL');
      child.kill('SIGKILL');
      throw new Error(`${title}: still running after ${ms / 1000} s.\n${transcript(followed)}`);
    },
    async waitForOutput(pattern, stream = 'stdout', timeoutMs = patienceMs) {
      const came = new Promise<RegExpExecArray | undefined>((resolve) => {
        const look = () => {
          const match = pattern.exec(followed[stream]);
          if (match === null) return;
          child[stream]?.off('data', look);
          resolve(match);
        };
        child[stream]?.on('data', look);
        look();
        void followed.ended.then(() => resolve(undefined));
      });
      const match = await within(came, timeoutMs);
      if (match === undefined)
        throw new Error(`${title}: the output never matched ${pattern}.\n${transcript(followed)}`);
      return match;
    },
    kill(signal) {
      for (const pid of childrenOf(child.pid)) kill(pid, signal);
    },
  };
  return followed;
}

async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  const timer = new AbortController();
  const late = sleep(ms, undefined, { signal: timer.signal }).catch(() => undefined);
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer.abort();
  }
}

function transcript({ stdout, stderr }: BoxProcess): string {
  return `--- stdout ---\n${stdout}\n--- stderr ---\n${stderr}`;
}

async function command(env: NodeJS.ProcessEnv, args: readonly string[]): Promise<void> {
  const child = spawn('bash', args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const { exitCode, stdout, stderr } = await follow(child, args.join(' ')).endedWithin(patienceMs);
  assert.equal(exitCode, 0, `${args.join(' ')}\n${stdout}\n${stderr}`);
}

// The name of a box contains the process id of its owner, so that we recognise a box whose owner was killed.
function newName(): string {
  return `t${process.pid}-${randomInt(1e9)}`;
}

function takeDownAbandoned(): void {
  for (const name of boxes()) {
    const owner = /^t(\d+)-\d+$/.exec(name)?.[1];
    if (owner === undefined || parentOf(Number(owner)) !== undefined) continue;
    spawnSync('bash', [script, 'down'], { env: { ...process.env, CIAB: name }, stdio: 'ignore' });
  }
}

function boxes(): string[] {
  try {
    return readdirSync(stateFolder);
  } catch {
    return []; // there has never been one
  }
}

// Namespaces are nested: all processes of a host are also processes of this machine.
function processesOn(box: string, host: string): HostProcess[] {
  const init = initOf(box, host);
  if (init === undefined) return [];
  const namespace = readlinkSync(`/proc/${init}/ns/pid`);
  const found: HostProcess[] = [];
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry);
    if (!Number.isInteger(pid) || pid === init) continue;
    try {
      if (readlinkSync(`/proc/${pid}/ns/pid`) !== namespace) continue;
      const text = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
      // A process without a command line is a zombie.
      if (text === '' || belongsToHost(text, parentOf(pid) === init)) continue;
      found.push({ pid, command: text });
    } catch {
      // it exited in the meantime
    }
  }
  return found;
}

function belongsToHost(text: string, isChildOfInit: boolean): boolean {
  // If a client vanishes silently, its session lives until TCP gives up. A client that still runs is found on its own host.
  if (/^sshd: /.test(text)) return true;
  // Children of Slurm's daemons; one of them exits late.
  if (/^\S*:? ?slurm(scriptd|stepd)\b/.test(text)) return true;
  return isChildOfInit && /^(sleep 3600$|\S*(sshd|munged|slurmd|slurmctld)\b)/.test(text);
}

function shmOf(box: string, host: string): string[] {
  const init = initOf(box, host);
  return init === undefined ? [] : readdirSync(join('/proc', String(init), 'root', 'dev', 'shm'));
}

function initOf(box: string, host: string): number | undefined {
  try {
    const pid = Number(readFileSync(join(stateFolder, box, 'hosts', host, 'pid'), 'utf8'));
    const text = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
    return text.includes(` __init ${host} ${box} `) ? pid : undefined;
  } catch {
    return undefined; // it is down
  }
}

function childrenOf(parent: number | undefined): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && parent !== undefined && parentOf(pid) === parent);
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return undefined; // there is no such process
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // it has exited by itself
  }
}
