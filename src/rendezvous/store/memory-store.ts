// A store in the memory of one process: behind the launcher's TcpStoreServer, and for tests whose ranks live in
// one process. It also knows lost ranks, so that nobody waits for what will never be written.

import { HorovodError } from '../../errors.ts';
import { type WaitOptions, waitFor } from '../../net/wait.ts';
import type { Store, StoreWait } from './store.ts';

interface Waiter {
  readonly key: string;
  readonly from: number | undefined;
  readonly resolve: (value: string) => void;
  readonly reject: (error: HorovodError) => void;
}

export class MemoryStore implements Store {
  readonly #values = new Map<string, string>();
  readonly #waiters = new Set<Waiter>();
  readonly #lostRanks = new Map<number, HorovodError>();
  readonly #closedPrefixes = new Map<string, HorovodError>();
  #failure: HorovodError | undefined;

  async set(key: string, value: string, _options: WaitOptions = {}): Promise<void> {
    if (this.#failure?.code === 'ERR_HVD_SHUT_DOWN') throw this.#failure;
    const closed = this.#closureOf(key);
    if (closed !== undefined) throw closed;
    const earlier = this.#values.get(key);
    if (earlier !== undefined && earlier !== value) {
      throw new HorovodError(
        'ERR_HVD_RENDEZVOUS',
        `the key "${key}" has been written already. Do two processes have the same HOROVOD_RANK in one job?`,
      );
    }
    this.#values.set(key, value);
    for (const waiter of this.#waiters) {
      if (waiter.key !== key) continue;
      this.#waiters.delete(waiter);
      waiter.resolve(value);
    }
  }

  async get(key: string, options: StoreWait = {}): Promise<string> {
    const value = this.#values.get(key);
    if (value !== undefined) return value;
    const failure =
      this.#failure ??
      this.#closureOf(key) ??
      (options.from === undefined ? undefined : this.#lostRanks.get(options.from));
    if (failure !== undefined) throw failure;
    let waiter: Waiter | undefined;
    return waitFor<string>(
      (resolve, reject) => {
        waiter = { key, from: options.from, resolve, reject };
        this.#waiters.add(waiter);
      },
      `for "${key}"`,
      options,
    ).finally(() => {
      if (waiter !== undefined) this.#waiters.delete(waiter);
    });
  }

  /** `rank` will write nothing any more: waits for it fail with `error`. */
  rankLost(rank: number, error: HorovodError): void {
    this.#lostRanks.set(rank, error);
    this.#reject(error, (waiter) => waiter.from === rank);
  }

  /**
   * What happens under `prefix`, which ends with a slash, is over: its values are forgotten, and whoever waits for a key there or writes one, now or
   * later, gets `error`. The first error stays.
   */
  closePrefix(prefix: string, error: HorovodError): void {
    if (this.#closedPrefixes.has(prefix)) return;
    this.#closedPrefixes.set(prefix, error);
    for (const key of this.#values.keys()) if (key.startsWith(prefix)) this.#values.delete(key);
    this.#reject(error, (waiter) => waiter.key.startsWith(prefix));
  }

  /** Ends every wait, now and later, for what has not been written. The first error stays. */
  fail(error: HorovodError): void {
    this.#failure ??= error;
    this.#reject(this.#failure, () => true);
  }

  close(): void {
    this.fail(new HorovodError('ERR_HVD_SHUT_DOWN', 'the store was closed.'));
  }

  #closureOf(key: string): HorovodError | undefined {
    // By the prefixes of the key: a job of many generations has closed many.
    for (let end = key.indexOf('/'); end >= 0; end = key.indexOf('/', end + 1)) {
      const error = this.#closedPrefixes.get(key.slice(0, end + 1));
      if (error !== undefined) return error;
    }
    return undefined;
  }

  #reject(error: HorovodError, isConcerned: (waiter: Waiter) => boolean): void {
    for (const waiter of this.#waiters) {
      if (!isConcerned(waiter)) continue;
      this.#waiters.delete(waiter);
      waiter.reject(error);
    }
  }
}
