// Progress of what may take long: a start that waits for ranks, the broadcast of a large model, a checkpoint. A phase that
// ends within three seconds prints nothing. After that it prints a line with what it waits for and how far it is, again
// after twice as long, and so on, at least once a minute, and one line at the end. A timer, which keeps no process alive,
// checks whether a line is due; phases that block the thread are checked whenever they report.

import type { Log } from './log.ts';

/** How far a phase is. */
export interface Stage {
  /** What is waited for: 'ranks 2, 3 are missing'. */
  readonly detail?: string;
  readonly done?: number;
  readonly total?: number;
  readonly unit?: 'bytes' | 'ranks' | 'hosts';
}

export interface ProgressClock {
  nowMs(): number;
  /** Calls `run` once, unless the function it returns is called before. */
  after(ms: number, run: () => void): () => void;
}

export interface Phase {
  /** How far it is now. */
  report(stage: Stage): void;
  /** It is over, well or not. Calling it twice is fine. */
  end(): void;
}

export interface PhaseOptions {
  /** What is going on: 'starting', 'broadcast of 1.2 GB'. */
  readonly what: string;
  readonly log: Pick<Log, 'tell'>;
  /** Nothing is printed before this. */
  readonly quietMs?: number;
  readonly clock?: ProgressClock;
}

const defaultQuietMs = 3000;
const maxSilenceMs = 60_000;

export const systemClock: ProgressClock = {
  nowMs: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
};

export function startPhase(options: PhaseOptions): Phase {
  const { what, log, quietMs = defaultQuietMs, clock = systemClock } = options;
  const startedAtMs = clock.nowMs();
  let stage: Stage = {};
  let interval = quietMs;
  let dueAtMs = startedAtMs + quietMs;
  let hasSpoken = false;
  let isOver = false;
  let cancel = () => {};

  const elapsed = () => Math.round((clock.nowMs() - startedAtMs) / 100) / 10;
  const say = () => {
    hasSpoken = true;
    interval = Math.min(2 * interval, maxSilenceMs);
    dueAtMs = clock.nowMs() + interval;
    const facts = { phase: what, elapsedSeconds: elapsed(), ...stage };
    log.tell(`${what}: ${[...describe(stage), `${elapsed()} s so far`].join(', ')}`, facts);
  };
  const watch = () => {
    cancel = clock.after(Math.max(dueAtMs - clock.nowMs(), 1), () => {
      if (isOver) return;
      if (clock.nowMs() >= dueAtMs) say();
      watch();
    });
  };
  watch();

  return {
    report(next) {
      stage = next;
      if (!isOver && clock.nowMs() >= dueAtMs) say();
    },
    end() {
      if (isOver) return;
      isOver = true;
      cancel();
      if (!hasSpoken) return;
      log.tell(`${what}: ended after ${elapsed()} s`, {
        phase: what,
        elapsedSeconds: elapsed(),
        isOver: true,
      });
    },
  };
}

function describe({ detail, done, total, unit }: Stage): string[] {
  const parts: string[] = [];
  if (done !== undefined && total !== undefined) {
    const inUnit = (value: number) => (unit === 'bytes' ? inBytes(value) : String(value));
    const share = total > 0 && unit === 'bytes' ? ` (${Math.floor((100 * done) / total)} %)` : '';
    parts.push(
      `${inUnit(done)} of ${inUnit(total)}${unit === undefined || unit === 'bytes' ? '' : ` ${unit}`}${share}`,
    );
  }
  if (detail !== undefined) parts.push(detail);
  return parts;
}

/** '1.2 GB' */
export function inBytes(bytes: number): string {
  const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${Number(value.toPrecision(3))} ${units[unit]}`;
}
