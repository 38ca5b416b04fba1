// One feed for several iterations at the same time: the leases of a compute worker. Each gets a feed of its own, which submits to the
// common one; results go to whoever has submitted the item.

import type { Feed } from './feed.ts';
import type { Computed, WorkItem } from './work.ts';

export class SharedFeed {
  readonly #feed: Feed;
  #submitted = 0;
  #waiting: Promise<unknown> = Promise.resolve();

  constructor(feed: Feed) {
    this.#feed = feed;
  }

  /** Closing it leaves the common feed open. */
  part(): Feed {
    const results: Promise<Computed>[] = [];
    return {
      worksAhead: this.#feed.worksAhead,
      submit: (item) => {
        const result = this.#compute(item);
        // Whoever takes it gets the error; until then it is not an unhandled rejection.
        result.catch(() => {});
        results.push(result);
      },
      take: () => results.shift() as Promise<Computed>,
      takeSync: () => {
        throw new Error('leases are not computed in turns that block');
      },
      close: async () => {},
    };
  }

  close(): Promise<void> {
    return this.#feed.close();
  }

  #compute(item: WorkItem): Promise<Computed> {
    this.#feed.submit({ ...item, number: this.#submitted++ });
    // The common feed hands results out in the order of submission.
    const result = this.#waiting.then(() => this.#feed.take());
    this.#waiting = result.catch(() => {});
    return result;
  }
}
