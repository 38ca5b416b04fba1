// The main thread's side of a host's watch over the other hosts of the job (watcher.ts says what it does). One rank of
// each host has one, in a thread of its own that never keeps the process alive and ends with it.

import { Worker } from 'node:worker_threads';
import { ControlBlock, toError } from '../../control/control-block.ts';
import { HorovodError } from '../../errors.ts';
import type { JobSecret } from '../../settings/job-secret.ts';
import type { WatchOrder, WatchReport, WatchThreadData } from './orders.ts';
import type { WatcherOptions } from './watcher.ts';

export type { WatchedHost, WatcherOptions } from './watcher.ts';

/** How long a blocked main thread waits for the watch to inform the others. */
const tellTimeoutMs = 500;

/** Starts this host's watch. When it resolves `candidates` is set; the other hosts need them to connect. */
export async function startWatch(options: WatcherOptions): Promise<HostWatch> {
  const watch = new HostWatch(options.secret);
  await watch.open(options);
  return watch;
}

/** The watch of a worker of an elastic job: its thread serves one generation after the other. */
export class KeptWatch {
  #watch: HostWatch | undefined;

  /** Starts the thread, if there is none: open() will then be quick. */
  prepare(secret: JobSecret): HostWatch {
    if (this.#watch === undefined || this.#watch.isOver) this.#watch = new HostWatch(secret, true);
    return this.#watch;
  }

  /** Like startWatch(). Its stop() and destroy() leave the thread running. */
  async open(options: WatcherOptions): Promise<HostWatch> {
    const watch = this.prepare(options.secret);
    await watch.open(options);
    return watch;
  }

  close(): void {
    void this.#watch?.kill();
    this.#watch = undefined;
  }
}

export class HostWatch {
  /** Where the watches of other hosts find this one. */
  candidates: readonly string[] = [];
  readonly #worker: Worker;
  readonly #isKept: boolean;
  readonly #served = new Int32Array(new SharedArrayBuffer(4));
  readonly #onExit: (code: number) => void;
  #options: Omit<WatcherOptions, 'secret'> | undefined;
  #awaited: { resolve(): void; reject(error: unknown): void } | undefined;
  #watches = 0;
  #orders = 0;
  #isOver = false;

  constructor(secret: JobSecret, isKept = false) {
    this.#isKept = isKept;
    const data: WatchThreadData = {
      secretHex: secret.revealForEnvironment(),
      served: this.#served.buffer as SharedArrayBuffer,
      isKept,
    };
    this.#worker = new Worker(new URL('./worker.js', import.meta.url), {
      workerData: data,
      // The thread needs neither the loaders of the user's program nor its environment, which holds the secret.
      execArgv: [],
      env: {},
      name: 'horovod watch',
      resourceLimits: { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 8 },
    });
    this.#worker.on('message', (report: WatchReport) => this.#onReport(report));
    this.#worker.on('error', (error) => this.#onDeath(error));
    this.#worker.on('exit', () => this.#settle(ended()));
    this.#worker.unref();
    // A process that exits reports its code; only one that is killed just disconnects.
    this.#onExit = (code) => this.#orderSync({ type: 'exit', number: ++this.#orders, code: code & 0xff });
  }

  /** The thread has ended, or is about to. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Begins to watch for a generation; the watch for the one before ends. */
  async open({ secret: _, ...options }: WatcherOptions): Promise<void> {
    this.#options = options;
    process.off('exit', this.#onExit);
    process.once('exit', this.#onExit);
    this.#order({ type: 'open', watch: ++this.#watches, options });
    await this.#wait();
  }

  /** Connects with the watches of all `peers`, whose `candidates` are given in the same order. */
  async connect(
    candidates: readonly (readonly string[])[],
    wait: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<void> {
    const { timeoutMs, signal } = wait;
    const abort = () => this.#order({ type: 'abort' });
    signal?.addEventListener('abort', abort, { once: true });
    if (signal?.aborted) abort();
    this.#order({ type: 'connect', candidates, timeoutMs });
    try {
      await this.#wait();
    } catch (error) {
      // The thread does not know why it had to give up.
      throw HorovodError.is(signal?.reason) ? signal.reason : error;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  /** Blocks until what this host's control block says is on its way to the other hosts. */
  tellNow(): void {
    this.#orderSync({ type: 'tell', number: ++this.#orders });
  }

  /**
   * Says goodbye, before it returns: this process may end from now on. The thread goes on for the other ranks of this
   * host until they have left too; in an elastic job, where all of them are leaving, it hangs up. Twice is fine.
   */
  stop(): void {
    process.off('exit', this.#onExit);
    this.#orderSync({ type: 'leave', number: ++this.#orders });
  }

  /** Says goodbye and hangs up, whatever other ranks of this host do: for a start that has failed. */
  async destroy(): Promise<void> {
    this.stop();
    if (!this.#isKept) await this.kill();
  }

  /** Ends the thread as it is: the other hosts take it for a death. */
  async kill(): Promise<void> {
    process.off('exit', this.#onExit);
    // Nobody answers any more.
    this.#isOver = true;
    await this.#worker.terminate();
  }

  #order(order: WatchOrder): void {
    if (!this.#isOver) this.#worker.postMessage(order);
  }

  #orderSync(order: WatchOrder & { readonly number: number }): void {
    if (this.#isOver) return;
    this.#worker.postMessage(order);
    const deadline = performance.now() + tellTimeoutMs;
    for (;;) {
      const last = Atomics.load(this.#served, 0);
      const leftMs = deadline - performance.now();
      if (last >= order.number || leftMs <= 0) return;
      Atomics.wait(this.#served, 0, last, leftMs);
    }
  }

  #wait(): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      if (this.#isOver) {
        reject(ended());
        return;
      }
      this.#worker.ref();
      this.#awaited = { resolve, reject };
    });
  }

  #onReport(report: WatchReport): void {
    // Of a generation that is over.
    if (report.watch !== this.#watches) return;
    const awaited = this.#awaited;
    this.#awaited = undefined;
    this.#worker.unref();
    if (report.type === 'opened') this.candidates = report.candidates;
    if (report.type === 'failed') awaited?.reject(toError(report.failure));
    else awaited?.resolve();
  }

  /** A bug in the thread, or no memory for it. Nobody would notice a lost host any more, so the job fails. */
  #onDeath(error: unknown): void {
    const { controlBlockPath = '', rank } = this.#options ?? {};
    const message = `the thread of rank ${rank} that watches the other hosts has failed: ${String(error)}.`;
    try {
      const block = ControlBlock.open(controlBlockPath);
      block.fail({ code: 'ERR_HVD_PEER_LOST', message, rank });
      block.close();
    } catch {
      // The block is gone, and with it whoever could read it.
    }
    this.#settle(new HorovodError('ERR_HVD_RENDEZVOUS', message, { rank, cause: error }));
  }

  #settle(error: HorovodError): void {
    this.#isOver = true;
    process.off('exit', this.#onExit);
    this.#awaited?.reject(error);
    this.#awaited = undefined;
  }
}

function ended(): HorovodError {
  return new HorovodError('ERR_HVD_SHUT_DOWN', 'the thread that watches the other hosts has ended.');
}
