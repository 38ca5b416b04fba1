// A job for fault injection: real ranks under horovodrun. A test waits for their lines, signals and inspects their processes, and
// nothing may be left afterwards. Every wait has a deadline and fails with the transcript.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { processStatus } from '../../src/control/process-status.ts';
import { type HorovodrunProcess, startHorovodrun } from '../../src/testing/spawn-ranks.ts';
import { fixturePath } from './repository.ts';

/** Only for jobs that hang, because a machine under load is slow. */
const patienceMs = 60_000;

/** A line that a rank has written with say(): see test/fixtures/faults/say.ts. */
export interface Said {
  readonly atNs?: string;
  readonly name?: string;
  readonly code?: string;
  readonly message?: string;
  readonly rank?: number;
  readonly pid?: number;
  readonly signal?: string;
  readonly exitCode?: number;
  readonly cause?: string;
  readonly transport?: string;
  readonly value?: unknown;
}

export interface FaultJob {
  readonly run: HorovodrunProcess;
  /** Resolves with the text that `rank` wrote after this word, when it has written the word `count` times. */
  said(rank: number, word: string, count?: number): Promise<Said>;
  /** The same for several ranks. */
  allSaid(ranks: readonly number[], word: string): Promise<Said[]>;
  /** Resolves when the rank's main thread sleeps inside a blocking call. */
  blocked(rank: number): Promise<void>;
  /** Resolves when the stderr of the launcher, which includes that of all ranks, matches. */
  errorOutput(pattern: RegExp): Promise<void>;
  pid(rank: number): number;
  /** Signals a rank. Returns the time just before, on the clock that ranks use in their lines. */
  signal(rank: number, signal: NodeJS.Signals): bigint;
  /** Waits for the exit of the launcher, with a deadline. */
  ended(): Promise<{ exitCode: number | null; signal: NodeJS.Signals | null }>;
}

export interface FaultJobOptions {
  readonly args?: readonly string[];
  readonly flags?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

/** Starts test/fixtures/faults/`fixture` on `np` ranks. At the end of the test it is killed, and nothing may be left. */
export function startFaultJob(
  t: TestContext,
  np: number,
  fixture: string,
  options: FaultJobOptions = {},
): FaultJob {
  const { args = [], flags = [], env = {} } = options;
  const filesBefore = new Set(memoryFiles());
  const run = startHorovodrun(['-np', String(np), ...flags, '--', faultFixture(fixture), ...args], { env });
  const pids = new Map<number, number>();

  const waitUntil = async <T>(what: string, look: () => T | undefined): Promise<T> => {
    const deadline = performance.now() + patienceMs;
    for (;;) {
      const found = look();
      if (found !== undefined) return found;
      const isOver = run.child.exitCode !== null || run.child.signalCode !== null;
      if (isOver) await run.ended;
      if (isOver || performance.now() > deadline) {
        const last = look();
        if (last !== undefined) return last;
        assert.fail(`${what} did not come.\n--- stdout ---\n${run.stdout}\n--- stderr ---\n${run.stderr}`);
      }
      await sleep(2);
    }
  };

  const said = async (rank: number, word: string, count = 1): Promise<Said> => {
    const line = new RegExp(`^\\[${rank}\\]<stdout>:${word} (\\{.*\\})$`, 'gm');
    const text = await waitUntil(`"${word}" of rank ${rank}`, () => {
      const found = [...run.stdout.matchAll(line)];
      return found.length >= count ? found[count - 1]?.[1] : undefined;
    });
    const value = JSON.parse(text) as Said;
    if (word === 'ready' && value.pid !== undefined) pids.set(rank, value.pid);
    return value;
  };

  const pid = (rank: number): number => {
    const known = pids.get(rank);
    assert.ok(known !== undefined, `rank ${rank} has not said "ready"`);
    return known;
  };

  t.after(async () => {
    // A stopped rank ignores SIGTERM, and a killed launcher leaves its guardian. This kills everything.
    run.child.kill('SIGKILL');
    await run.ended;
    for (const each of pids.values()) await assertEnded(each);
    await assertNoNewMemoryFiles(filesBefore);
  });

  return {
    run,
    said,
    allSaid: (ranks, word) => Promise.all(ranks.map((rank) => said(rank, word))),
    async blocked(rank) {
      await said(rank, 'entering');
      // Seen twice, because a thread may also sleep for a moment in a lock of the runtime.
      for (let times = 0; times < 2; times++) {
        await waitUntil(`a blocked rank ${rank}`, () => (sleepsInFutex(pid(rank)) ? true : undefined));
        await sleep(5);
      }
    },
    async errorOutput(pattern) {
      await waitUntil(`${pattern}`, () => (pattern.test(run.stderr) ? true : undefined));
    },
    pid,
    signal(rank, signal) {
      const at = process.hrtime.bigint();
      process.kill(pid(rank), signal);
      return at;
    },
    ended: () => endedWithin(run),
  };
}

/** Waits for the exit of a launcher, with a deadline. */
export async function endedWithin(
  run: HorovodrunProcess,
): Promise<{ exitCode: number | null; signal: NodeJS.Signals | null }> {
  const timer = new AbortController();
  const late = sleep(patienceMs, undefined, { signal: timer.signal }).then(() =>
    assert.fail(`horovodrun is still running.\n--- stdout ---\n${run.stdout}\n--- stderr ---\n${run.stderr}`),
  );
  late.catch(() => undefined);
  try {
    return await Promise.race([run.ended, late]);
  } finally {
    timer.abort();
  }
}

export function faultFixture(name: string): string {
  return fixturePath(`faults/${name}`);
}

/** Milliseconds from a signal() to a time that a rank has written. */
export function msBetween(sentNs: bigint, said: Said): number {
  return Number(BigInt(said.atNs ?? 0) - sentNs) / 1e6;
}

/** Fails if the process still exists after a time that is long even for a machine under load. */
export async function assertEnded(pid: number, withinMs = 20_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (processStatus(pid).state === 'running') {
    assert.ok(performance.now() < deadline, `process ${pid} is still running`);
    await sleep(5);
  }
}

// Files of other jobs on this machine exist for a moment, until they are unlinked.
async function assertNoNewMemoryFiles(before: ReadonlySet<string>): Promise<void> {
  const deadline = performance.now() + 20_000;
  for (;;) {
    const left = memoryFiles().filter((name) => !before.has(name));
    if (left.length === 0) return;
    assert.ok(performance.now() < deadline, `left in /dev/shm: ${left.join(', ')}`);
    await sleep(20);
  }
}

function memoryFiles(): string[] {
  try {
    return readdirSync('/dev/shm').filter((name) => name.startsWith('horovod'));
  } catch {
    return []; // no such file system here
  }
}

function sleepsInFutex(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/wchan`, 'utf8').includes('futex');
  } catch {
    return false;
  }
}
