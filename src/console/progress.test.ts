import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogFacts } from './log.ts';
import { inBytes, type ProgressClock, startPhase } from './progress.ts';

/** Time that passes when it is told to. */
class FakeClock implements ProgressClock {
  #now = 0;
  #timers: { atMs: number; run: () => void }[] = [];

  nowMs(): number {
    return this.#now;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { atMs: this.#now + ms, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((each) => each !== timer);
    };
  }

  get timers(): number {
    return this.#timers.length;
  }

  /** As a thread that blocks: no timer runs. */
  block(ms: number): void {
    this.#now += ms;
  }

  pass(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const [next] = this.#timers.filter(({ atMs }) => atMs <= end).sort((a, b) => a.atMs - b.atMs);
      if (next === undefined) break;
      this.#timers = this.#timers.filter((each) => each !== next);
      this.#now = Math.max(this.#now, next.atMs);
      next.run();
    }
    this.#now = end;
  }
}

function phaseOf(what: string) {
  const clock = new FakeClock();
  const lines: string[] = [];
  const facts: (LogFacts | undefined)[] = [];
  const log = {
    tell(message: string, more?: LogFacts) {
      lines.push(message);
      facts.push(more);
    },
  };
  return { clock, lines, facts, phase: startPhase({ what, log, clock }) };
}

test('a short phase prints nothing', () => {
  const { clock, lines, phase } = phaseOf('starting');
  phase.report({ detail: 'rank 1 is missing' });
  clock.pass(2999);
  phase.end();
  clock.pass(60_000);
  assert.deepEqual(lines, []);
  assert.equal(clock.timers, 0);
});

test('a long one prints how far it is at growing intervals, and when it ends', () => {
  const { clock, lines, facts, phase } = phaseOf('starting');
  phase.report({ done: 2, total: 4, unit: 'ranks', detail: 'ranks 2, 3 are missing' });
  clock.pass(4000);
  phase.report({ done: 3, total: 4, unit: 'ranks', detail: 'rank 3 is missing' });
  clock.pass(6000);
  phase.end();
  phase.end();
  assert.deepEqual(lines, [
    'starting: 2 of 4 ranks, ranks 2, 3 are missing, 3 s so far',
    'starting: 3 of 4 ranks, rank 3 is missing, 9 s so far',
    'starting: ended after 10 s',
  ]);
  assert.deepEqual(facts[1], {
    phase: 'starting',
    elapsedSeconds: 9,
    done: 3,
    total: 4,
    unit: 'ranks',
    detail: 'rank 3 is missing',
  });
  assert.deepEqual(facts[2], { phase: 'starting', elapsedSeconds: 10, isOver: true });
});

test('it is never silent for longer than a minute', () => {
  const { clock, lines, phase } = phaseOf('x');
  clock.pass(600_000);
  phase.end();
  assert.deepEqual(
    lines.slice(0, -1).map((line) => Number(/([\d.]+) s/.exec(line)?.[1])),
    [3, 9, 21, 45, 93, 153, 213, 273, 333, 393, 453, 513, 573],
  );
});

test('a phase that blocks the thread prints when it reports', () => {
  const { clock, lines, phase } = phaseOf('broadcast of 1.2 GB');
  for (const done of [3e8, 6e8, 9e8, 1.2e9]) {
    clock.block(2000);
    phase.report({ done, total: 1.2e9, unit: 'bytes' });
  }
  phase.end();
  assert.deepEqual(lines, [
    'broadcast of 1.2 GB: 600 MB of 1.2 GB (50 %), 4 s so far',
    'broadcast of 1.2 GB: ended after 8 s',
  ]);
});

test('sizes in words', () => {
  assert.deepEqual([0, 999, 1000, 1_234_567, 64e6, 2.5e9].map(inBytes), [
    '0 bytes',
    '999 bytes',
    '1 KB',
    '1.23 MB',
    '64 MB',
    '2.5 GB',
  ]);
});
