// Who is awaited by all others, from their status pages; and which processes count as stopped.

import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { awaitedRank, ProcessWatch } from './process-watch.ts';

const page = (rank: number, ...missing: number[]) => ({
  rank,
  pending: missing.length === 0 ? [] : [{ label: 'allreduce', waitedMs: 1000, missing }],
});

test('the rank that is missing in a collective of every other is awaited', () => {
  assert.equal(awaitedRank([page(0, 4), page(2, 4), page(4)]), 4);
  assert.equal(awaitedRank([page(0, 2, 4), page(2), page(4)]), undefined);
  assert.equal(awaitedRank([page(0, 2, 4), page(2, 4), page(4)]), 4);
});

test('nobody is, if some do not wait, wait for each other, or are alone', () => {
  assert.equal(awaitedRank([page(0), page(1), page(2)]), undefined);
  assert.equal(awaitedRank([page(0, 1), page(1, 0), page(2, 0)]), undefined);
  assert.equal(awaitedRank([page(3)]), undefined);
  assert.equal(awaitedRank([]), undefined);
});

test('a rank that has left waits for nobody, and nobody for it', () => {
  assert.equal(awaitedRank([page(0, 1), page(1), { ...page(2), hasLeft: true }]), 1);
});

/** Starts a child, holds it as a debugger does, and prints its number. */
const debuggerScript = `
import ctypes, os, subprocess, sys
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long] * 4
ptrace.restype = ctypes.c_long
child = subprocess.Popen(['sleep', '600'])
if ptrace(0x4206, child.pid, 0, 0) or ptrace(0x4207, child.pid, 0, 0): # PTRACE_SEIZE, PTRACE_INTERRUPT
    child.kill()
    sys.exit('ptrace: ' + os.strerror(ctypes.get_errno()))
os.waitpid(child.pid, 0)
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
`;

function python(): string | false {
  try {
    execFileSync('python3', ['-c', 'import ctypes'], { stdio: 'ignore' });
    return false;
  } catch {
    return 'there is no python3 to play the debugger';
  }
}

test('a process that is stopped, and goes on, is reported; one that somebody debugs is not', {
  skip: process.platform !== 'linux' ? 'needs /proc' : python(),
}, async (t) => {
  const end = async (child: ChildProcess, signal?: NodeJS.Signals) => {
    const closed = once(child, 'close');
    if (signal === undefined) child.stdin?.end();
    else child.kill(signal);
    await closed;
  };
  const holder = spawn('python3', ['-c', debuggerScript], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => end(holder));
  const sleeper = spawn('sleep', ['600'], { stdio: ['ignore', 'pipe', 'ignore'] });
  t.after(() => end(sleeper, 'SIGKILL'));
  const [text] = (await once(holder.stdout, 'data')) as [Buffer];
  const numbers: readonly (readonly [number, number])[] = [
    [1, Number(text.toString())],
    [2, sleeper.pid as number],
  ];
  const seen: string[] = [];
  let heard: () => void = () => undefined;
  const watch = new ProcessWatch(() => numbers, {
    hangTimeoutMs: 0,
    onStopped(number, isStopped) {
      seen.push(`${number} ${isStopped ? 'stopped' : 'goes on'}`);
      heard();
    },
    onHanging: () => assert.fail('nobody hangs'),
  });
  t.after(() => watch.close());
  for (const signal of ['SIGSTOP', 'SIGCONT'] as const) {
    const next = new Promise<void>((resolve) => {
      heard = resolve;
    });
    sleeper.kill(signal);
    await next;
  }
  // Both were looked at each time.
  assert.deepEqual(seen, ['2 stopped', '2 goes on']);
});
