// Watches the processes of an elastic job on one host for faults without a death: a process that was stopped, and one that does nothing
// while all other ranks wait for it. Who waits for whom is on the status pages in the control block of the host.

import type { ControlBlock } from '../../control/control-block.ts';
import { type ActivitySample, activityOf, sampleActivity } from '../../control/process-activity.ts';
import { decodeRankStatus, type RankStatus } from '../../observe/status/rank-status.ts';

export interface ProcessWatchOptions {
  /** 0: never. */
  readonly hangTimeoutMs: number;
  /** Its process was stopped (state T), or continued. */
  readonly onStopped: (number: number, isStopped: boolean) => void;
  /** It has used no processor for that long, while all others of this generation waited for it. Called once for each. */
  readonly onHanging: (number: number, generation: number) => void;
}

const stopLookMs = 100;
const hangLookMs = 500;
/** Time between two looks that counts: this process may have been stopped itself. */
const maxLookMs = 2000;

/** Of the processes that run here, by number. */
type Pids = () => Iterable<readonly [number: number, pid: number]>;

export class ProcessWatch {
  readonly #options: ProcessWatchOptions;
  readonly #pids: Pids;
  readonly #stopped = new Set<number>();
  readonly #timers: NodeJS.Timeout[];
  #block: ControlBlock | undefined;
  /** By page of the block. */
  #workers: readonly number[] | undefined;
  #suspicion: { readonly number: number; readonly sample: ActivitySample; idleMs: number } | undefined;

  constructor(pids: Pids, options: ProcessWatchOptions) {
    this.#pids = pids;
    this.#options = options;
    this.#timers = [setInterval(() => this.#lookForStops(), stopLookMs).unref()];
    if (options.hangTimeoutMs > 0)
      this.#timers.push(setInterval(() => this.#lookForHangs(performance.now()), hangLookMs).unref());
  }

  useControlBlock(block: ControlBlock, workers: readonly number[] | undefined): void {
    this.#block = block;
    this.#workers = workers;
    this.#suspicion = undefined;
  }

  close(): void {
    for (const timer of this.#timers) clearInterval(timer);
  }

  #lookForStops(): void {
    for (const [number, pid] of this.#pids()) {
      // Not `t`: a process that somebody debugs.
      const isStopped = sampleActivity(pid, 0)?.state === 'T';
      if (isStopped === this.#stopped.has(number)) continue;
      if (isStopped) this.#stopped.add(number);
      else this.#stopped.delete(number);
      this.#options.onStopped(number, isStopped);
    }
  }

  #lookForHangs(now: number): void {
    const block = this.#block;
    const number = block === undefined ? undefined : awaitedRank(pagesOf(block));
    const pid = block === undefined || number === undefined ? 0 : block.pid(number);
    const sample = pid === 0 ? undefined : sampleActivity(pid, now);
    if (block === undefined || number === undefined || sample === undefined) {
      this.#suspicion = undefined;
      return;
    }
    const before = this.#suspicion?.number === number ? this.#suspicion : undefined;
    const passedMs = before === undefined ? 0 : now - before.sample.atMs;
    const isIdle = activityOf(before?.sample, sample) === 'idle' && passedMs <= maxLookMs;
    const idleMs = before !== undefined && isIdle ? before.idleMs + passedMs : 0;
    this.#suspicion = { number, sample, idleMs };
    if (idleMs < this.#options.hangTimeoutMs) return;
    this.#block = undefined;
    this.#options.onHanging(this.#workers?.[number] ?? number, block.generation);
  }
}

function pagesOf(block: ControlBlock): RankStatus[] {
  return Array.from({ length: block.ranks }, (_, number) => block.readStatus(number)).flatMap((page) => {
    const status = page === undefined ? undefined : decodeRankStatus(page.text);
    return status === undefined ? [] : [status];
  });
}

/** The one rank that is missing in a collective of every other, and is in none itself. */
export function awaitedRank(
  pages: readonly Pick<RankStatus, 'rank' | 'pending' | 'hasLeft'>[],
): number | undefined {
  const present = pages.filter(({ hasLeft }) => hasLeft !== true);
  const [absent, ...more] = present.filter(({ pending }) => pending.length === 0);
  if (absent === undefined || more.length > 0 || present.length < 2) return undefined;
  const { rank } = absent;
  const isAwaited = present.every(
    (other) => other === absent || other.pending.some(({ missing }) => missing.includes(rank)),
  );
  return isAwaited ? rank : undefined;
}
