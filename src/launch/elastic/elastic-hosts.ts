// The hosts of an elastic job: each is opened and closed by itself, at any time, and starts workers one by one.

import type { JobView } from '../../observe/status/job-view.ts';
import type { RecordOrder, RecordProgress } from '../../observe/timeline/record-order.ts';
import type { DriverEvent } from '../../rendezvous/driver/driver-state.ts';
import type { JobNews } from '../../rendezvous/driver/job-news.ts';
import { planGpus } from '../../settings/gpus.ts';
import type { Slot } from '../hosts/plan-slots.ts';
import { within } from '../job-parts/within.ts';
import { type HostsRequest, openHost } from '../open-hosts.ts';
import type { HostRanks, StartedRank } from '../ranks/host-ranks.ts';
import { lostRank } from '../ranks/lost-rank.ts';
import { progressOfHosts, viewOfHosts } from '../ranks/views.ts';
import { crowdedHint } from '../spawn/allowed-cores.ts';
import { CorePinning } from '../spawn/pin-cores.ts';

/** How long hosts that are being opened are waited for at the end of the job. */
const openingMs = 1000;

/** --pin-cores and --pin-gpus. */
export interface Pinning {
  readonly cores: boolean;
  readonly gpus: boolean;
}

export class ElasticHosts {
  readonly #request: HostsRequest;
  readonly #pinning: Pinning;
  readonly #tell: (event: DriverEvent) => void;
  readonly #open = new Map<string, HostRanks>();
  /** Hosts that are being closed: they may be opened again afterwards. */
  readonly #closing = new Map<string, Promise<void>>();
  readonly #opening = new Set<Promise<void>>();
  #news: Omit<JobNews, 'pid'> | undefined;
  #isClosed = false;

  constructor(request: HostsRequest, pinning: Pinning, tell: (event: DriverEvent) => void) {
    this.#request = request;
    this.#pinning = pinning;
    this.#tell = tell;
  }

  /** Tells `host-open` or `host-failed` when that is known. */
  open(name: string, slots: number): void {
    const opening = this.#openHost(name, slots);
    this.#opening.add(opening);
    void opening.finally(() => this.#opening.delete(opening));
  }

  /** A worker that cannot be started counts as ended. */
  async start(host: string, slot: Slot): Promise<StartedRank> {
    const [started] = (await this.#open.get(host)?.start([slot])) ?? [];
    // Its host was lost just before.
    return started ?? lostRank(slot, `${slot.hostname} cannot be reached`);
  }

  useControlBlock(host: string, path: string, workers: readonly number[]): void {
    this.#open.get(host)?.useControlBlock(path, workers);
  }

  /** To the members on all hosts. */
  notice(): void {
    for (const host of this.#open.values()) host.notice();
  }

  /** What `horovod status` shows, on all hosts. */
  tellNews(news: Omit<JobNews, 'pid'>): void {
    this.#news = news;
    for (const host of this.#open.values()) host.tellNews(news);
  }

  look(): JobView | undefined {
    return viewOfHosts([...this.#open.values()], this.#request);
  }

  record(order: RecordOrder): void {
    for (const host of this.#open.values()) host.record(order);
  }

  recordProgress(number: number): RecordProgress {
    return progressOfHosts([...this.#open.values()], number);
  }

  resizeTerminal(columns: number): void {
    for (const host of this.#open.values()) host.resizeTerminal(columns);
  }

  /** Closes it when `quiet` has settled: what its agent says later is lost. */
  async closeHost(name: string, quiet: Promise<void>): Promise<void> {
    const host = this.#open.get(name);
    this.#open.delete(name);
    const closing = quiet.then(() => host?.close());
    this.#closing.set(name, closing);
    await closing;
    this.#closing.delete(name);
    this.#tell({ kind: 'host-closed', host: name });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    // One that does not answer is not waited for: it ends when its connection does.
    await within(Promise.all(this.#opening), openingMs);
    await Promise.all([...this.#closing.values(), ...[...this.#open.values()].map((host) => host.close())]);
  }

  async #openHost(name: string, slots: number): Promise<void> {
    const { say } = this.#request;
    await this.#closing.get(name);
    const request = { ...this.#request, ...this.#pinned(name, slots) };
    const outcome = await openHost(request, name, slots, (why) => {
      say(`${name} was lost: ${why}.`);
      this.#open.delete(name);
      this.#tell({ kind: 'host-failed', host: name });
    });
    if (!('start' in outcome)) {
      say(`${name} cannot be used (${outcome.phase}): ${outcome.seen.replace(/\.$/, '')}. ${outcome.advice}`);
      this.#tell({ kind: 'host-failed', host: name });
      return;
    }
    if (this.#isClosed) {
      await outcome.close();
      return;
    }
    this.#open.set(name, outcome);
    if (this.#news !== undefined) outcome.tellNews(this.#news);
    this.#tell({ kind: 'host-open', host: name });
  }

  /** Agents do it for their hosts. */
  #pinned(name: string, slots: number): Pick<HostsRequest, 'corePinning' | 'gpus'> {
    const { remote, driverEnvironment, say } = this.#request;
    if (remote?.names.has(name)) return {};
    const gpus = this.#pinning.gpus ? planGpus(driverEnvironment['CUDA_VISIBLE_DEVICES'], slots) : undefined;
    if (this.#pinning.cores) return { gpus, corePinning: new CorePinning(slots, say) };
    const hint = crowdedHint(slots);
    if (hint !== undefined) say(hint);
    return { gpus };
  }
}
