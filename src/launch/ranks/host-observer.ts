// What the launcher sees of the ranks of this host through its control block, what it orders them to record, and how busy the host is.
// LocalRanks loads it when there is something to see: starting the ranks comes first.

import type { ControlBlock } from '../../control/control-block.ts';
import { HostReporter } from '../../observe/hosts/host-reporter.ts';
import type { LocalRank } from '../../observe/hosts/host-sampler.ts';
import { type JobView, joinViews, lookAt } from '../../observe/status/job-view.ts';
import {
  type RecordOrder,
  type RecordProgress,
  recordProgress,
  writeRecordOrder,
} from '../../observe/timeline/record-order.ts';

export interface HostObserverOptions {
  readonly hostname: string;
  readonly jobId: string;
  /** Prints a warning about this host. */
  readonly warn: (text: string) => void;
  /** Those of this host that are attached to the block. */
  readonly ranks: (block: ControlBlock) => Iterable<LocalRank>;
}

export class HostObserver {
  readonly #options: HostObserverOptions;
  readonly #reporter: HostReporter;
  #block: ControlBlock | undefined;

  constructor(options: HostObserverOptions) {
    this.#options = options;
    this.#reporter = new HostReporter({ host: options.hostname, onLowMemory: options.warn });
  }

  /** It stays open until close(), or until the next one. */
  use(block: ControlBlock): void {
    this.#block = block;
    this.#reporter.use(block, () => [...this.#options.ranks(block)]);
  }

  /** `known`: what another name of this machine says. */
  look(known: JobView | undefined): JobView | undefined {
    const block = this.#block;
    return joinViews([known, block && lookAt(block, this.#options.jobId)]);
  }

  record(order: RecordOrder): void {
    if (this.#block !== undefined) writeRecordOrder(this.#block.fd, order);
  }

  recordProgress(number: number): RecordProgress {
    return this.#block === undefined ? 'none' : recordProgress(this.#block.fd, number);
  }

  close(): void {
    this.#block = undefined;
    this.#reporter.close();
  }
}
