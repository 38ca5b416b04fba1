// Writes the page of a host into its control block, every two seconds. The process that has started the ranks of the host does this:
// horovodrun, or its agent. Where there is none, as under mpirun and srun, a rank does, from the thread of its host's watch.

import { type ControlBlock, controlLayout } from '../../control/control-block.ts';
import { HostSampler, type HostSamplerOptions, type LocalRank } from './host-sampler.ts';
import { decodeHostUse, encodeHostUse, type HostUse } from './host-use.ts';

export interface HostReporterOptions extends HostSamplerOptions {
  /** Does nothing as long as another process writes the page. */
  readonly isSubstitute?: true | undefined;
  readonly periodMs?: number | undefined;
}

export const hostPeriodMs = 2000;
/** A page that is older has no writer any more. */
const abandonedMs = 3 * hostPeriodMs;

export class HostReporter {
  readonly #options: HostReporterOptions;
  readonly #sampler: HostSampler;
  readonly #timer: NodeJS.Timeout;
  #block: ControlBlock | undefined;
  #ranks: () => readonly LocalRank[] = () => [];
  #written = 0;
  #beganAt = performance.now();
  #isLooking = false;
  #isOver = false;

  constructor(options: HostReporterOptions) {
    this.#options = options;
    this.#sampler = new HostSampler(options);
    this.#timer = setInterval(() => void this.report(), options.periodMs ?? hostPeriodMs).unref();
  }

  /** `ranks`: those of this host, by their numbers in the block. The block stays open until stop(), or until the next one. */
  use(block: ControlBlock, ranks: () => readonly LocalRank[]): void {
    this.#block = block;
    this.#ranks = ranks;
    this.#beganAt = performance.now();
    void this.report();
  }

  /** Never rejects: watching changes nothing. */
  async report(): Promise<void> {
    if (this.#isLooking || this.#isOver) return;
    this.#isLooking = true;
    try {
      const block = this.#block;
      const ranks = this.#ranks();
      if (block === undefined || ranks.length === 0 || this.#hasAnotherWriter(block, ranks)) return;
      const use = await this.#sampler.look(ranks);
      // Not into the block of another generation, or one that is closed.
      if (this.#block === block && !this.#isOver) this.#write(block, ranks, use);
    } catch {
      // The next one may succeed.
    } finally {
      this.#isLooking = false;
    }
  }

  close(): void {
    this.#isOver = true;
    this.#block = undefined;
    clearInterval(this.#timer);
    this.#sampler.close();
  }

  #hasAnotherWriter(block: ControlBlock, ranks: readonly LocalRank[]): boolean {
    if (this.#options.isSubstitute !== true) return false;
    // A launcher begins when it knows the block, which may take a moment.
    if (performance.now() - this.#beganAt < hostPeriodMs) return true;
    const page = block.readHost(leaderOf(ranks));
    if (page === undefined || page.sequence === this.#written) return false;
    return Date.now() - (decodeHostUse(page.text)?.takenAt ?? 0) < abandonedMs;
  }

  #write(block: ControlBlock, ranks: readonly LocalRank[], use: HostUse): void {
    const text = encodeHostUse(use, controlLayout.statusBytes);
    if (text.length > controlLayout.statusBytes) return;
    this.#written = (this.#written % 0xfffffffe) + 1;
    block.writeHost(leaderOf(ranks), this.#written, text);
  }
}

/** The host's page is that of its first rank. */
export function leaderOf(ranks: readonly Pick<LocalRank, 'rank'>[]): number {
  return Math.min(...ranks.map(({ rank }) => rank));
}
