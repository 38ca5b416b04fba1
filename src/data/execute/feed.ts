// A feed computes items of work and hands out the results in the order of the items. This one works in the main thread, when the
// result is asked for; thread-feed.ts has threads do it in advance.

import { HorovodError } from '../../errors.ts';
import { driveAsync, driveSync, isPromise } from './maybe-async.ts';
import type { Reader } from './reader.ts';
import type { Stages } from './stages.ts';
import type { Computed, WorkItem } from './work.ts';

export interface Feed {
  /** Whether it works ahead: items that are submitted early are ready early. */
  readonly worksAhead: boolean;
  submit(item: WorkItem): void;
  /** The result of the oldest item that was submitted and not taken yet. */
  take(): Computed | Promise<Computed>;
  /** Blocks the thread until it is there. */
  takeSync(): Computed;
  close(): Promise<void>;
}

/** The feed, which closes something else after itself. */
export function alsoClosing(feed: Feed, close: () => void): Feed {
  return {
    worksAhead: feed.worksAhead,
    submit: (item) => feed.submit(item),
    take: () => feed.take(),
    takeSync: () => feed.takeSync(),
    async close() {
      await feed.close();
      close();
    },
  };
}

export class InlineFeed implements Feed {
  readonly worksAhead = false;
  readonly #reader: Reader;
  readonly #stages: Stages;
  readonly #items: WorkItem[] = [];

  constructor(reader: Reader, stages: Stages) {
    this.#reader = reader;
    this.#stages = stages;
  }

  submit(item: WorkItem): void {
    this.#items.push(item);
  }

  async take(): Promise<Computed> {
    const item = this.#items.shift() as WorkItem;
    const computed = await driveAsync(this.#stages.compute(await this.#reader.read(item)));
    this.#reader.release(item.number);
    return computed;
  }

  takeSync(): Computed {
    const read = this.#reader.read(this.#items.shift() as WorkItem);
    if (!isPromise(read)) return driveSync(this.#stages.compute(read));
    read.catch(() => {});
    throw new HorovodError(
      'ERR_HVD_WOULD_BLOCK',
      'nextSync(): with HOROVOD_DATA_THREADS=0 files are read in the main thread, which cannot wait for them and block. Use next(), ' +
        'or at least one thread.',
    );
  }

  close(): Promise<void> {
    return this.#reader.close();
  }
}
