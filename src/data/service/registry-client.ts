// A client of the registry of a data service: a worker, a dispatcher, a training process, or a command. It connects when it is
// first used, says something every second, and connects again when the connection is lost, to the same registry or to the one
// that has taken over, which it finds by reading the config again. It then registers again what it has registered before.

import { randomInt } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { HorovodError } from '../../errors.ts';
import { SilenceDetector } from '../../net/silence.ts';
import { abortedBy, inSeconds, type WaitOptions } from '../../net/wait.ts';
import { TcpStore } from '../../rendezvous/store/tcp-store.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { clientNumbers, registryJobId } from './registry.ts';
import {
  beforeAll,
  type Call,
  type DispatcherEntry,
  type DispatcherReport,
  type DispatcherStatus,
  type Page,
  type ServicePlace,
  type ServiceStatus,
  type WorkerEntry,
  type WorkerReport,
  type WorkerStatus,
} from './registry-messages.ts';

export interface ComputeClientOptions {
  /** Reads the config again; undefined: it is gone. */
  readonly reread?: ((signal: AbortSignal) => Promise<ServicePlace | undefined>) | undefined;
  /** What this process is called in error texts. */
  readonly name?: string | undefined;
  /** For a look at who is there: a registry that does not answer is not waited for. */
  readonly isHasty?: boolean | undefined;
  /** Called again and again while the registry, which has answered before, does not; `sinceMs`: for how long. */
  readonly onSilence?: ((place: ServicePlace, sinceMs: number) => void) | undefined;
}

interface Registered<T> {
  readonly call: Extract<Call, { readonly call: T }>;
  /** Its number or incarnation. */
  given: number;
}

type Registrations = {
  readonly dispatchers: Map<number, Registered<'register dispatcher'>>;
  readonly workers: Map<number, Registered<'register worker'>>;
};

const beatMs = 1000;
const silenceMs = 10_000;
/** Between two looks at the config while nobody answers. */
const rereadMs = 1000;
/** A machine under load may need longer the first time. */
const firstAttemptMs = 5000;
/** In which another process takes a lost registry over. */
const takeoverMs = 30_000;
const advice =
  'Is the compute job still running, and can this machine reach it (firewall)? `horovod compute-worker FILE` starts one.';

export class ComputeClient {
  readonly #options: ComputeClientOptions;
  readonly #number = randomInt(0, clientNumbers);
  readonly #closing = new AbortController();
  readonly #registrations: Registrations = { dispatchers: new Map(), workers: new Map() };
  readonly #reports: {
    readonly workers: Map<number, WorkerReport>;
    readonly dispatchers: Map<number, DispatcherReport>;
  } = { workers: new Map(), dispatchers: new Map() };
  #place: ServicePlace;
  #store: Promise<TcpStore> | undefined;
  #open: TcpStore | undefined;
  #beat: NodeJS.Timeout | undefined;
  #silence: SilenceDetector<TcpStore> | undefined;
  #hasConnected = false;

  constructor(place: ServicePlace, options: ComputeClientOptions = {}) {
    this.#place = place;
    this.#options = options;
  }

  /**
   * A dispatcher of this process listens at `addresses`. The same again changes nothing; it is an error while another process
   * has that index.
   */
  async registerDispatcher(
    index: number,
    addresses: readonly string[],
    options: WaitOptions = {},
  ): Promise<{ incarnation: number }> {
    const call = { call: 'register dispatcher', index, addresses, ...origin() } as const;
    const answer = await this.#ask<{ incarnation: number }>(call, `to register dispatcher ${index}`, options);
    this.#registrations.dispatchers.set(index, { call, given: answer.incarnation });
    return answer;
  }

  async registerWorker(
    dispatcher: number,
    addresses: readonly string[],
    options: WaitOptions = {},
  ): Promise<{ number: number }> {
    const call = { call: 'register worker', dispatcher, addresses, ...origin() } as const;
    const what = `to register a worker for dispatcher ${dispatcher}`;
    const answer = await this.#ask<{ number: number }>(call, what, options);
    this.#registrations.workers.set(answer.number, { call, given: answer.number });
    return answer;
  }

  /** One that is alive and newer than the incarnation `after`. */
  waitForDispatcher(
    index: number,
    { timeoutMs = this.#timeoutMs, signal, after = 0 }: WaitOptions & { readonly after?: number } = {},
  ): Promise<DispatcherEntry> {
    const what = `for dispatcher ${index}`;
    return this.#ask({ call: 'dispatcher', index, after }, what, { signal, timeoutMs }, () =>
      registrationTimeout(`dispatcher ${index}`, 'the dispatcher', timeoutMs),
    );
  }

  /** Those that are there when all have been there. */
  async waitForWorkers(
    dispatcher: number,
    { timeoutMs = this.#timeoutMs, signal }: WaitOptions = {},
  ): Promise<readonly WorkerEntry[]> {
    const what = `for the workers of dispatcher ${dispatcher}`;
    await this.#ask({ call: 'all workers', dispatcher }, what, { signal, timeoutMs }, () =>
      registrationTimeout(`workers for dispatcher ${dispatcher}`, 'the workers', timeoutMs),
    );
    return this.workers(dispatcher, { signal, timeoutMs });
  }

  /** Those that are known now. */
  workers(dispatcher: number, options: WaitOptions = {}): Promise<readonly WorkerEntry[]> {
    return this.#list<WorkerEntry>((after) => ({ call: 'workers', dispatcher, after }), options);
  }

  async removeWorker(number: number, options: WaitOptions = {}): Promise<void> {
    this.#registrations.workers.delete(number);
    this.#reports.workers.delete(number);
    await this.#ask({ call: 'remove worker', number }, `to remove worker ${number}`, options);
  }

  /** What `horovod status` shows of a worker of this process. Sent with the next beat. */
  reportWorker(number: number, report: WorkerReport): void {
    this.#reports.workers.set(number, report);
  }

  reportDispatcher(index: number, report: DispatcherReport): void {
    this.#reports.dispatchers.set(index, report);
  }

  /** Ends the service: the config is removed, and all of its processes end. */
  async shutdown(options: WaitOptions = {}): Promise<void> {
    await this.#ask({ call: 'shut down' }, 'to shut the data service down', options);
  }

  /** Without a deadline of its own: services outlive training jobs. */
  async waitForShutdown({ signal }: Pick<WaitOptions, 'signal'> = {}): Promise<void> {
    await this.#ask({ call: 'wait for the end' }, 'for the end of the data service', { signal }, undefined);
  }

  async status(options: WaitOptions = {}): Promise<ServiceStatus> {
    const what = 'for the status of the data service';
    const head = await this.#ask<Omit<ServiceStatus, 'dispatchers' | 'workers'>>(
      { call: 'status' },
      what,
      options,
    );
    const [dispatchers, workers] = await Promise.all([
      this.#list<DispatcherStatus>((after) => ({ call: 'status of dispatchers', after }), options),
      this.#list<WorkerStatus>((after) => ({ call: 'status of workers', after }), options),
    ]);
    return { ...head, dispatchers, workers };
  }

  /** What this process has registered is lost to the others. Twice is fine. */
  async close(): Promise<void> {
    this.#closing.abort(new HorovodError('ERR_HVD_SHUT_DOWN', 'the client of the data service was closed.'));
    this.#detach();
    const store = await this.#store?.catch(() => undefined);
    store?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  get #timeoutMs(): number {
    return this.#place.timeout * 1000;
  }

  async #list<T extends object>(question: (after: number) => Call, options: WaitOptions): Promise<T[]> {
    const entries: T[] = [];
    for (let after: number | undefined = beforeAll; after !== undefined; ) {
      const what = 'for a list of the data service';
      const part: Page<T> = await this.#ask<Page<T>>(question(after), what, options);
      entries.push(...part.entries);
      after = part.next;
    }
    return entries;
  }

  /** Asks, again if the connection is lost meanwhile. `timeoutMs` is that of the service unless given; waits without one say so. */
  async #ask<T>(
    call: Call,
    what: string,
    options: WaitOptions,
    timeoutError: (() => HorovodError) | undefined = () => callTimeout(what, this.#timeoutMs),
  ): Promise<T> {
    const hasDeadline = call.call !== 'wait for the end';
    const { signal: given } = options;
    const timeoutMs = options.timeoutMs ?? (hasDeadline ? this.#timeoutMs : undefined);
    const deadline = timeoutMs === undefined ? undefined : performance.now() + timeoutMs;
    const signal =
      given === undefined ? this.#closing.signal : AbortSignal.any([given, this.#closing.signal]);
    for (;;) {
      if (signal.aborted) throw abortedBy(signal, `waiting ${what}`);
      const leftMs = deadline === undefined ? undefined : Math.max(deadline - performance.now(), 1);
      const store = await this.#connected(what, { signal, timeoutMs: leftMs });
      try {
        const left = deadline === undefined ? undefined : Math.max(deadline - performance.now(), 1);
        return JSON.parse(await store.call(JSON.stringify(call), what, { signal, timeoutMs: left })) as T;
      } catch (error) {
        // The connection has ended, and not the wait.
        if (store !== this.#open && !signal.aborted && !isTampered(error)) continue;
        if (HorovodError.is(error) && error.code === 'ERR_HVD_TIMEOUT') throw timeoutError?.() ?? error;
        throw error;
      }
    }
  }

  /** The connection, which several callers share: one that gives up waiting for it does not end it for the others. */
  async #connected(what: string, { signal, timeoutMs }: WaitOptions): Promise<TcpStore> {
    this.#store ??= this.#connect();
    const shared = this.#store;
    const patience = timeoutMs === undefined ? undefined : AbortSignal.timeout(Math.ceil(timeoutMs));
    const signals = [signal, patience].filter((each) => each !== undefined);
    const end = AbortSignal.any(signals);
    let onAbort: (() => void) | undefined;
    try {
      return await Promise.race([
        shared,
        new Promise<never>((_, reject) => {
          onAbort = () =>
            reject(
              patience?.aborted
                ? callTimeout(what, timeoutMs as number)
                : abortedBy(signal, `waiting ${what}`),
            );
          if (end.aborted) onAbort();
          else end.addEventListener('abort', onAbort, { once: true });
        }),
      ]);
    } finally {
      if (onAbort !== undefined) end.removeEventListener('abort', onAbort);
    }
  }

  #connect(): Promise<TcpStore> {
    const connecting = this.#dialUntilAnswered().then(async (store) => {
      this.#attach(store);
      await this.#registerAgain(store);
      return store;
    });
    // Tried again by the next call.
    connecting.catch(() => {
      if (this.#store === connecting) this.#store = undefined;
    });
    return connecting;
  }

  /**
   * The service may be about to get another registry: as long as there is a config, it is read again and again. Without one, a service
   * that was never reached is judged by what is at its addresses.
   */
  async #dialUntilAnswered(): Promise<TcpStore> {
    const { signal } = this.#closing;
    const startedAt = performance.now();
    const isReconnect = this.#hasConnected;
    const { reread, isHasty = false, onSilence } = this.#options;
    const waits = isReconnect || (reread !== undefined && !isHasty);
    const giveUpAt = startedAt + (isReconnect ? Math.max(this.#timeoutMs, takeoverMs) : takeoverMs);
    for (;;) {
      try {
        const attemptMs = isReconnect ? 2 * rereadMs : firstAttemptMs;
        return await this.#dial(waits ? Math.min(attemptMs, this.#timeoutMs) : this.#timeoutMs);
      } catch (error) {
        if (signal.aborted) throw abortedBy(signal, 'connecting to the data service');
        const place = await reread?.(signal).catch(() => this.#place);
        const isNew = place !== undefined && place.addresses.join(',') !== this.#place.addresses.join(',');
        if (place !== undefined) this.#place = place;
        if (isNew) continue;
        const isGone = place === undefined && reread !== undefined;
        if (isReconnect && isGone) {
          throw new HorovodError(
            'ERR_HVD_SHUT_DOWN',
            'the data service has ended: its config was removed, and its registry does not answer.',
            { cause: error },
          );
        }
        if (!waits || isGone || performance.now() >= giveUpAt) throw asServiceError(error);
        if (isReconnect) onSilence?.(this.#place, performance.now() - startedAt);
        await sleep(rereadMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  async #dial(timeoutMs: number): Promise<TcpStore> {
    const { addresses, key } = this.#place;
    const secret = JobSecret.fromHex(key);
    if (secret === undefined)
      throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', 'the key of a data service has 32 bytes in hex.');
    let store: TcpStore | undefined;
    store = await TcpStore.connect({
      secret,
      jobId: registryJobId,
      rank: this.#number,
      address: addresses.join(','),
      server: 'the registry of the data service',
      client: this.#options.name ?? 'this process',
      advice,
      timeoutMs,
      signal: this.#closing.signal,
      onLost: () => this.#lost(store),
    });
    return store;
  }

  #attach(store: TcpStore): void {
    this.#open = store;
    this.#hasConnected = true;
    this.#silence = new SilenceDetector<TcpStore>(silenceMs, (silent) => silent.closeAbruptly());
    this.#silence.unref();
    this.#silence.heard(store);
    this.#beat = setInterval(() => this.#report(store), beatMs).unref();
  }

  #detach(): void {
    this.#open = undefined;
    clearInterval(this.#beat);
    this.#silence?.stop();
  }

  #report(store: TcpStore): void {
    const { workers, dispatchers } = this.#reports;
    const call = { call: 'report', workers: [...workers], dispatchers: [...dispatchers] };
    store.call(JSON.stringify(call), 'for an answer').then(
      () => this.#silence?.heard(store),
      // Of a connection that has ended: lost() sees to it.
      () => undefined,
    );
  }

  #lost(store: TcpStore | undefined): void {
    if (store === undefined || store !== this.#open) return;
    this.#detach();
    this.#store = undefined;
    if (this.#closing.signal.aborted) return;
    const { dispatchers, workers } = this.#registrations;
    // Nobody may be asking at the moment, but what is registered has to be known.
    if (dispatchers.size + workers.size === 0) return;
    this.#store = this.#connect();
    this.#store.catch(() => undefined);
  }

  async #registerAgain(store: TcpStore): Promise<void> {
    const ask = (call: Call) =>
      store.call(JSON.stringify(call), 'to register again', { timeoutMs: this.#timeoutMs });
    const { dispatchers, workers } = this.#registrations;
    for (const [index, { call, given }] of dispatchers) {
      try {
        await ask({ ...call, incarnation: given });
      } catch (error) {
        if (!HorovodError.is(error) || store !== this.#open) throw error;
        // Another process has taken this index over; whoever waits for a newer incarnation hears of it.
        dispatchers.delete(index);
      }
    }
    for (const { call, given } of workers.values()) await ask({ ...call, number: given });
  }
}

function origin(): { host: string; pid: number } {
  return { host: hostname().slice(0, 255), pid: process.pid };
}

function isTampered(error: unknown): boolean {
  return HorovodError.is(error) && error.code === 'ERR_HVD_TAMPERED';
}

/** Texts of Python Horovod. */
function registrationTimeout(who: string, whom: string, timeoutMs: number): HorovodError {
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `Timed out waiting for ${who} to register. Try to find out what takes ${whom} so long to register or increase ` +
      `timeout. Timeout after ${timeoutMs / 1000} seconds.`,
  );
}

function callTimeout(what: string, timeoutMs: number): HorovodError {
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `waited ${inSeconds(timeoutMs)} ${what} at the registry of the data service. ${advice}`,
  );
}

function asServiceError(error: unknown): unknown {
  if (!HorovodError.is(error) || error.code !== 'ERR_HVD_RENDEZVOUS') return error;
  return new HorovodError('ERR_HVD_DATA_SERVICE', error.detail, { cause: error });
}
