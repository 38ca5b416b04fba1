// --pin-cores: each rank may use certain cores only. A process gets its allowed cores from the thread that started
// it, so the launcher confines itself for the moment of the start: the rank is in its place before its first thread,
// whatever its command is. Node cannot do that; taskset (util-linux, BusyBox) can.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { HorovodError } from '../../errors.ts';

export interface CorePlan {
  /** For each local rank. */
  readonly coresOf: readonly (readonly number[])[];
  /** How many different cores the ranks of this host have together. */
  readonly coreCount: number;
}

/** Equal slices in the order of numbers; with fewer cores than ranks one core each, in turn. A pure function. */
export function planCores(allowed: readonly number[], ranks: number): CorePlan {
  const each = Math.floor(allowed.length / ranks);
  const coresOf = Array.from({ length: ranks }, (_, rank) =>
    each > 0
      ? allowed.slice(rank * each, (rank + 1) * each)
      : allowed.slice(rank % allowed.length, (rank % allowed.length) + 1),
  );
  return { coresOf, coreCount: new Set(coresOf.flat()).size };
}

/** The kernel's lists: '0-3,8' is 0, 1, 2, 3 and 8. */
export function parseCoreList(text: string): number[] {
  return text
    .trim()
    .split(',')
    .flatMap((part) => {
      const [first = Number.NaN, last = first] = part.split('-').map(Number);
      return Array.from({ length: last - first + 1 }, (_, i) => first + i);
    });
}

/** What confines the launcher for a moment; replaced in tests. */
export interface Affinity {
  /** Cores this process may use: what taskset and the cpuset of its control group leave. */
  allowed(): number[];
  confine(cores: readonly number[]): void;
}

export class CorePinning {
  readonly coreCount: number;
  readonly #plan: CorePlan;
  readonly #allowed: readonly number[];
  readonly #affinity: Affinity;
  readonly #warn: (text: string) => void;

  /** Throws ERR_HVD_UNSUPPORTED where cores cannot be chosen. */
  constructor(ranks: number, warn: (text: string) => void, affinity: Affinity = taskset) {
    this.#allowed = affinity.allowed();
    this.#affinity = affinity;
    this.#warn = warn;
    affinity.confine(this.#allowed); // nothing changes: it is only to see whether it can be done
    this.#plan = planCores(this.#allowed, ranks);
    this.coreCount = this.#plan.coreCount;
    if (ranks > this.coreCount) {
      warn(
        `--pin-cores: ${ranks} ranks share ${this.coreCount} core(s), in turn; some will wait for each other.`,
      );
    }
  }

  /** Runs `start`, which starts a process, so that the process has the cores of this local rank. */
  around<T>(localRank: number, start: () => T): T {
    this.#confine(this.#plan.coresOf[localRank] ?? this.#allowed);
    try {
      return start();
    } finally {
      this.#confine(this.#allowed);
    }
  }

  describe(localRank: number): string {
    return (this.#plan.coresOf[localRank] ?? this.#allowed).join(',');
  }

  /** It was possible a moment ago: cores that were taken away since are no reason to leave half a job behind. */
  #confine(cores: readonly number[]): void {
    try {
      this.#affinity.confine(cores);
    } catch (error) {
      this.#warn((error as Error).message);
    }
  }
}

const taskset: Affinity = {
  allowed() {
    try {
      const list = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
      if (list !== undefined) return parseCoreList(list);
    } catch {
      // said below
    }
    throw impossible('this system does not say which cores a process may use (/proc/self/status)');
  },
  confine(cores) {
    try {
      execFileSync('taskset', ['-p', '-c', cores.join(','), String(process.pid)], {
        stdio: ['ignore', 'ignore', 'pipe'],
      });
    } catch (error) {
      const { code, stderr } = error as NodeJS.ErrnoException & { stderr?: Buffer };
      throw code === 'ENOENT'
        ? impossible('the command taskset was not found (package util-linux)')
        : impossible(`taskset says: ${stderr?.toString().trim() || (error as Error).message}`);
    }
  },
};

function impossible(why: string): HorovodError {
  return new HorovodError('ERR_HVD_UNSUPPORTED', `--pin-cores is not possible here: ${why}.`);
}
