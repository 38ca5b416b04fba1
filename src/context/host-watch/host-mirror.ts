// How busy hosts are, between hosts: a watch sends the others the page of its own host when it has changed, and writes those it receives
// into the control block of its host. Where neither horovodrun nor an agent writes that page, the thread of the watch does.

import { type ControlBlock, controlLayout } from '../../control/control-block.ts';
import { HostReporter } from '../../observe/hosts/host-reporter.ts';
import { decodeHostUse, encodeHostUse } from '../../observe/hosts/host-use.ts';
import type { WatchMessage } from './messages.ts';

type HostMessage = Extract<WatchMessage, { type: 'host' }>;

export interface HostMirrorOptions {
  readonly hostname: string;
  readonly localRanks: readonly number[];
  readonly say: (message: HostMessage) => void;
  /** Called when this watch has found that the memory of its host runs low. */
  readonly onLowMemory: (text: string) => void;
}

export class HostMirror {
  readonly #block: ControlBlock;
  readonly #options: HostMirrorOptions;
  readonly #reporter: HostReporter;
  readonly #told = new Map<number, number>();
  #written = 0;

  constructor(block: ControlBlock, options: HostMirrorOptions) {
    const { hostname, localRanks, onLowMemory } = options;
    this.#block = block;
    this.#options = options;
    // A process that trains starts no other process.
    this.#reporter = new HostReporter({ host: hostname, onLowMemory, gpus: 'none', isSubstitute: true });
    const ranks = () => localRanks.map((rank) => ({ rank, pid: block.pid(rank) }));
    this.#reporter.use(block, () => ranks().filter(({ pid }) => pid !== 0));
  }

  /** What has changed since the last call. */
  tell(): void {
    for (const rank of this.#options.localRanks) {
      const page = this.#block.readHost(rank);
      if (page === undefined || this.#told.get(rank) === page.sequence) continue;
      const use = decodeHostUse(page.text);
      if (use === undefined) continue;
      this.#told.set(rank, page.sequence);
      this.#options.say({ type: 'host', rank, ageMs: Math.max(Date.now() - use.takenAt, 0), use });
    }
  }

  /** `message.rank` is of the host that says it. */
  hear({ rank, ageMs, use }: HostMessage): void {
    // In the time of this host: clocks of machines differ.
    const text = encodeHostUse({ ...use, takenAt: Date.now() - ageMs }, controlLayout.statusBytes);
    if (text.length <= controlLayout.statusBytes) this.#block.writeHost(rank, ++this.#written, text);
  }

  close(): void {
    this.#reporter.close();
  }
}
