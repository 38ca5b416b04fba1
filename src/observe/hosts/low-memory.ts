// The warning that the memory of a host runs low. When none is left, the kernel kills a process, most likely a rank, and nothing says why
// but the system log; so the warning comes before that, with the rank that uses most.

import { bytesText } from '../../console/amounts.ts';
import type { MemoryUse } from './memory-use.ts';

export interface RankMemory {
  readonly rank: number;
  readonly pid: number;
  readonly rssBytes: number;
}

/** Less than this is left: it is low. Of large machines, a tenth is a lot. */
const lowShare = 0.1;
const maxLowBytes = 2 * 2 ** 30;
/** So many times more must be left before it may be low again. */
const recovered = 1.5;

/** Remembers whether the memory of a host is low. */
export class LowMemory {
  #isLow = false;

  /** 'began': this is the first look at which it is low. */
  look({ totalBytes, availableBytes }: MemoryUse): 'fine' | 'began' | 'low' {
    const lowBytes = Math.min(totalBytes * lowShare, maxLowBytes);
    const wasLow = this.#isLow;
    this.#isLow = availableBytes < (wasLow ? lowBytes * recovered : lowBytes);
    if (!this.#isLow) return 'fine';
    return wasLow ? 'low' : 'began';
  }
}

/** Without the name of the host. `ranks`: those that run on it. */
export function lowMemoryText(memory: MemoryUse, ranks: readonly RankMemory[]): string {
  const { totalBytes, availableBytes, limit } = memory;
  const whose = limit === 'cgroup' ? ' that its cgroup (container) allows' : '';
  return [
    `only ${bytesText(availableBytes)} of the ${bytesText(totalBytes)} of memory${whose} is left.`,
    ...rankText(ranks, totalBytes - availableBytes),
    'When nothing is left, the kernel kills a process, and the job fails. Use smaller batches or shuffle buffers, or start fewer ranks on this ' +
      (limit === 'cgroup' ? 'host, or raise the limit (on Spark: spark.executor.memoryOverhead).' : 'host.'),
  ].join(' ');
}

function rankText(ranks: readonly RankMemory[], usedBytes: number): string[] {
  const [most, ...others] = [...ranks].sort((a, b) => b.rssBytes - a.rssBytes);
  if (most === undefined) return [];
  const sum = ranks.reduce((total, { rssBytes }) => total + rssBytes, 0);
  const all = others.length === 0 ? '' : `; the ${ranks.length} ranks here use ${bytesText(sum)} together`;
  const first = `Rank ${most.rank} (pid ${most.pid}) uses most, ${bytesText(most.rssBytes)}${all}.`;
  // Memory that ranks share counts for each of them, so this is a lower limit of what the others use.
  return sum < usedBytes / 2 ? [first, 'Most of it is used by other programs.'] : [first];
}
