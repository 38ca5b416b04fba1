// --pin-cores: binds each rank to certain cores. A process inherits its allowed cores from the thread that starts it, so the
// launcher binds itself to them while it starts the rank, whatever the command is. Node cannot do that; taskset
// (util-linux, BusyBox) can.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { HorovodError } from '../../errors.ts';

export interface CorePlan {
  /** For each local rank. */
  readonly coresOf: readonly (readonly number[])[];
  /** How many different cores the ranks of this host have together. */
  readonly coreCount: number;
}

/** Equal slices in the order of core numbers; if there are fewer cores than ranks, one core each in turn. */
export function planCores(allowed: readonly number[], ranks: number): CorePlan {
  const each = Math.floor(allowed.length / ranks);
  const coresOf = Array.from({ length: ranks }, (_, rank) =>
    each > 0
      ? allowed.slice(rank * each, (rank + 1) * each)
      : allowed.slice(rank % allowed.length, (rank % allowed.length) + 1),
  );
  return { coresOf, coreCount: new Set(coresOf.flat()).size };
}

/** Parses a list of the kernel: '0-3,8' is 0, 1, 2, 3 and 8. */
export function parseCoreList(text: string): number[] {
  return text
    .trim()
    .split(',')
    .flatMap((part) => {
      const [first = Number.NaN, last = first] = part.split('-').map(Number);
      return Array.from({ length: last - first + 1 }, (_, i) => first + i);
    });
}

/** Binds the launcher to cores; replaced in tests. */
export interface Affinity {
  /** The cores this process may use, according to taskset and the cpuset of its control group. */
  allowed(): number[];
  confine(cores: readonly number[]): void;
}

export class CorePinning {
  readonly coreCount: number;
  readonly #plan: CorePlan;
  readonly #allowed: readonly number[];
  readonly #affinity: Affinity;
  readonly #warn: (text: string) => void;

  /** Throws ERR_HVD_UNSUPPORTED if processes cannot be bound to cores. */
  constructor(ranks: number, warn: (text: string) => void, affinity: Affinity = taskset) {
    this.#allowed = affinity.allowed();
    this.#affinity = affinity;
    this.#warn = warn;
    affinity.confine(this.#allowed); // changes nothing, but throws if it is not possible
    this.#plan = planCores(this.#allowed, ranks);
    this.coreCount = this.#plan.coreCount;
    if (ranks > this.coreCount) {
      warn(
        `--pin-cores: ${ranks} ranks share ${this.coreCount} core${this.coreCount === 1 ? '' : 's'} and will slow each other down.`,
      );
    }
  }

  /** Runs `start`, so that the process it starts has the cores of this local rank. */
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

  /** Only warns: it worked in the constructor, and cores that were removed since are no reason to abort a half-started job. */
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
      // reported below
    }
    throw impossible('/proc/self/status does not show which cores a process may use');
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
        : impossible(`taskset failed: ${stderr?.toString().trim() || (error as Error).message}`);
    }
  },
};

function impossible(why: string): HorovodError {
  return new HorovodError('ERR_HVD_UNSUPPORTED', `--pin-cores cannot be used here: ${why}.`);
}
