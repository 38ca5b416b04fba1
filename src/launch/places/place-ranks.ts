// The ranks of one machine on which a job has several places, with an agent in each and at most one rank for an agent. The agents share
// the control block of the machine, and each cares for its own rank.

import { setTimeout as sleep } from 'node:timers/promises';
import type { JobView } from '../../observe/status/job-view.ts';
import type { RecordOrder } from '../../observe/timeline/record-order.ts';
import type { JobNews } from '../../rendezvous/driver/job-news.ts';
import type { RemoteRanks } from '../agent/remote-ranks.ts';
import type { Slot } from '../hosts/plan-slots.ts';
import type { HostRanks, StartedRank } from '../ranks/host-ranks.ts';
import { lostRank } from '../ranks/lost-rank.ts';

const goneMs = 200;

/** A place as its machine uses it. */
export interface UsedPlace {
  readonly ranks: RemoteRanks;
  /** A rank runs there. */
  isTaken: boolean;
}

export class PlaceRanks implements HostRanks {
  readonly hostname: string;
  /** Those that are there now, in ascending order. */
  readonly #places: () => readonly UsedPlace[];

  constructor(hostname: string, places: () => readonly UsedPlace[]) {
    this.hostname = hostname;
    this.#places = places;
  }

  async start(slots: readonly Slot[]): Promise<readonly StartedRank[]> {
    const started = await Promise.all(slots.map((slot) => this.#startIn(this.#takeFree(), slot)));
    return started.flat();
  }

  useControlBlock(path: string, workers?: readonly number[]): void {
    for (const { ranks } of this.#places()) ranks.useControlBlock(path, workers);
  }

  /** One is enough: they share the control block. */
  notice(): void {
    this.#places()[0]?.ranks.notice();
  }

  tellNews(news: Omit<JobNews, 'pid'>): void {
    this.#places()[0]?.ranks.tellNews(news);
  }

  record(order: RecordOrder): void {
    this.#places()[0]?.ranks.record(order);
  }

  recordProgress(): undefined {
    return undefined;
  }

  look(): JobView | undefined {
    return this.#places()[0]?.ranks.look();
  }

  resizeTerminal(columns: number): void {
    for (const { ranks } of this.#places()) ranks.resizeTerminal(columns);
  }

  /** Places outlive it, and are given back together. */
  async close(): Promise<void> {}

  /** At once, so that the next one takes another. */
  #takeFree(): UsedPlace | undefined {
    const place = this.#places().find(({ isTaken }) => !isTaken);
    if (place !== undefined) place.isTaken = true;
    return place;
  }

  async #startIn(place: UsedPlace | undefined, slot: Slot): Promise<readonly StartedRank[]> {
    if (place === undefined) {
      // The driver of an elastic job will try again; the list of its hosts is about to change.
      await sleep(goneMs);
      return [lostRank(slot, 'its place was taken away')];
    }
    const started = await place.ranks.start([slot]);
    for (const rank of started)
      void rank.ended.then(() => {
        place.isTaken = false;
      });
    return started;
  }
}
