// Who takes part in a data service, as its registry knows it: a state machine without sockets or clocks. A *client* is a
// connection to the registry, by its number. Dispatchers and workers live as long as the client that has registered them.

import { HorovodError } from '../../errors.ts';
import {
  type DispatcherReport,
  type DispatcherSide,
  type DispatcherStatus,
  idOutOfRange,
  type WorkerReport,
  type WorkerStatus,
} from './registry-messages.ts';

interface Registration {
  readonly client: number;
  readonly addresses: readonly string[];
  readonly host: string;
  readonly pid: number;
}

interface Dispatcher extends Registration {
  readonly incarnation: number;
  isAlive: boolean;
  report?: DispatcherReport;
}

interface Worker extends Registration {
  readonly dispatcher: number;
  report?: WorkerReport;
}

export interface MembersOptions {
  readonly dispatchers: number;
  readonly workersPerDispatcher: number;
  readonly dispatcherSide: DispatcherSide;
  /** Of the registry. One that has taken over does not know how many workers are left to come, so one is enough for it. */
  readonly incarnation: number;
}

/** So that a registry that has taken over gives nobody a number, of a worker or of an incarnation, that was used before. */
const numbersPerIncarnation = 10_000;

export class RegistryMembers {
  readonly #options: MembersOptions;
  readonly #dispatchers = new Map<number, Dispatcher>();
  readonly #workers = new Map<number, Worker>();
  /** Dispatchers whose workers have all been there at the same time: later losses do not make anybody wait again. */
  readonly #complete = new Set<number>();
  readonly #watchers = new Set<() => void>();
  readonly #firstNumber: number;
  #nextNumber: number;
  #isShutDown = false;

  constructor(options: MembersOptions) {
    this.#options = options;
    this.#firstNumber = (options.incarnation - 1) * numbersPerIncarnation;
    this.#nextNumber = this.#firstNumber;
  }

  get isShutDown(): boolean {
    return this.#isShutDown;
  }

  /** Its incarnation; `incarnation` is the one that it had at an earlier registry. The same addresses again change nothing but the client; other addresses only when the old one is lost. */
  registerDispatcher(index: number, by: Registration, incarnation?: number): number {
    this.#check(index);
    const old = this.#dispatchers.get(index);
    const isSame = old !== undefined && sameAddresses(old.addresses, by.addresses);
    if (old?.isAlive === true && !isSame) {
      throw new HorovodError(
        'ERR_HVD_DATA_SERVICE',
        `Dispatcher with id ${index} has already been registered under different address ` +
          `${old.addresses.join(',')}: ${by.addresses.join(',')}`,
      );
    }
    const next = (old?.incarnation ?? this.#firstNumber) + 1;
    const number = isSame
      ? old.incarnation
      : old === undefined
        ? (incarnation ?? next)
        : Math.max(next, incarnation ?? 0);
    this.#dispatchers.set(index, { ...by, incarnation: number, isAlive: true });
    this.#changed();
    return number;
  }

  /** Its number. `number` is the one that it had at an earlier registry, or before its connection was lost. */
  registerWorker(dispatcher: number, by: Registration, number?: number): number {
    this.#check(dispatcher);
    for (const [known, worker] of this.#workers) {
      if (worker.dispatcher !== dispatcher || !sameAddresses(worker.addresses, by.addresses)) continue;
      this.#workers.set(known, { ...worker, ...by });
      return known;
    }
    const own = number === undefined || this.#workers.has(number) ? this.#nextNumber : number;
    this.#nextNumber = Math.max(this.#nextNumber, own + 1);
    this.#workers.set(own, { ...by, dispatcher });
    const { workersPerDispatcher } = this.#options;
    if (this.workersOf(dispatcher).length >= workersPerDispatcher) this.#complete.add(dispatcher);
    this.#changed();
    return own;
  }

  removeWorker(number: number): void {
    if (this.#workers.delete(number)) this.#changed();
  }

  /** The connection of a client has ended, or is silent. */
  lose(client: number): void {
    for (const dispatcher of this.#dispatchers.values()) {
      if (dispatcher.client === client) dispatcher.isAlive = false;
    }
    for (const [number, worker] of this.#workers) {
      if (worker.client === client) this.#workers.delete(number);
    }
    this.#changed();
  }

  report(
    client: number,
    workers: readonly (readonly [number, WorkerReport])[],
    dispatchers: readonly (readonly [number, DispatcherReport])[],
  ): void {
    for (const [number, report] of workers) {
      const worker = this.#workers.get(number);
      if (worker?.client === client) worker.report = report;
    }
    for (const [index, report] of dispatchers) {
      const dispatcher = this.#dispatchers.get(index);
      if (dispatcher?.client === client) dispatcher.report = report;
    }
  }

  shutDown(): void {
    this.#isShutDown = true;
    this.#changed();
  }

  /** Ordered by index. */
  get dispatchers(): DispatcherStatus[] {
    const side = this.#options.dispatcherSide;
    return [...this.#dispatchers]
      .map(([index, { client: _, ...entry }]) => ({ index, side, ...entry }))
      .sort((a, b) => a.index - b.index);
  }

  /** Ordered by number. */
  get workers(): WorkerStatus[] {
    return [...this.#workers]
      .map(([number, { client: _, ...entry }]) => ({ number, ...entry }))
      .sort((a, b) => a.number - b.number);
  }

  workersOf(dispatcher: number): WorkerStatus[] {
    this.#check(dispatcher);
    return this.workers.filter((worker) => worker.dispatcher === dispatcher);
  }

  /** A living one that is newer than the incarnation `after`; undefined while there is none. */
  dispatcher(index: number, after: number): DispatcherStatus | undefined {
    this.#check(index);
    return this.dispatchers.find((each) => each.index === index && each.isAlive && each.incarnation > after);
  }

  /** All of its workers have been there, and one still is. */
  hasAllWorkers(dispatcher: number): boolean {
    const isOneThere = this.workersOf(dispatcher).length > 0;
    return isOneThere && (this.#options.incarnation > 1 || this.#complete.has(dispatcher));
  }

  /** Resolves when `look` has found something; rejects when the signal ends the wait or, with ERR_HVD_SHUT_DOWN, at the end of the service. */
  until<T>(look: () => T | undefined, signal: AbortSignal): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const end = () => {
        this.#watchers.delete(check);
        signal.removeEventListener('abort', onAbort);
      };
      const onAbort = () => {
        end();
        reject(new HorovodError('ERR_HVD_ABORTED', 'the client waits no longer.'));
      };
      const check = () => {
        let found: T | undefined;
        try {
          found = look();
          if (found === undefined && this.#isShutDown) throw isOver();
        } catch (error) {
          end();
          reject(error);
          return;
        }
        if (found === undefined) return;
        end();
        resolve(found);
      };
      this.#watchers.add(check);
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
      else check();
    });
  }

  #check(index: number): void {
    const { dispatchers } = this.#options;
    if (!Number.isSafeInteger(index) || index < 0 || index >= dispatchers)
      throw idOutOfRange(index, dispatchers);
    if (this.#isShutDown) throw isOver();
  }

  #changed(): void {
    for (const check of [...this.#watchers]) check();
  }
}

function isOver(): HorovodError {
  return new HorovodError('ERR_HVD_SHUT_DOWN', 'the data service was shut down.');
}

function sameAddresses(one: readonly string[], other: readonly string[]): boolean {
  return one.join(',') === other.join(',');
}
