// Where a consumer runs: in this thread, or (thread-host.ts) in one of its own, so that it answers while the main thread computes.

import { HorovodError } from '../../errors.ts';
import { Consumer, type ConsumerOptions } from './consumer.ts';
import type { ConsumerEvent, ConsumerOrder } from './consumer-messages.ts';

export interface ConsumerHost {
  /** Events wake whoever waits. */
  listen(onEvent: (event: ConsumerEvent) => void): void;
  order(order: ConsumerOrder): void;
  /** Until an event has come; false: none came in time. Keeps the process alive meanwhile. */
  wait(limitMs: number): Promise<boolean>;
  /** The same, blocking. */
  waitSync(limitMs: number): boolean;
  /** Events that have come while the thread was blocked. */
  drain(): void;
  close(): Promise<void>;
}

const maxTimerMs = 2 ** 31 - 1;

/** Wakes whoever waits for events. */
export class Waiting {
  #wake: (() => void)[] = [];

  wake(): void {
    for (const each of this.#wake.splice(0)) each();
  }

  wait(limitMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), Math.min(limitMs, maxTimerMs));
      this.#wake.push(() => {
        clearTimeout(timer);
        resolve(true);
      });
    });
  }
}

/** For tests, and where blocking is of no use. */
export class InlineHost implements ConsumerHost {
  readonly consumer: Consumer;
  readonly #waiting = new Waiting();
  #onEvent: (event: ConsumerEvent) => void = () => {};

  constructor(options: Omit<ConsumerOptions, 'post'>) {
    this.consumer = new Consumer({
      ...options,
      post: (event) => {
        this.#onEvent(event);
        this.#waiting.wake();
      },
    });
  }

  listen(onEvent: (event: ConsumerEvent) => void): void {
    this.#onEvent = onEvent;
  }

  order(order: ConsumerOrder): void {
    this.consumer.order(order);
  }

  wait(limitMs: number): Promise<boolean> {
    return this.#waiting.wait(limitMs);
  }

  waitSync(): boolean {
    throw new HorovodError(
      'ERR_HVD_WOULD_BLOCK',
      'nextSync(): this consumer runs in the main thread. Use next().',
    );
  }

  drain(): void {}

  async close(): Promise<void> {
    this.consumer.close();
    this.#waiting.wake();
  }
}
