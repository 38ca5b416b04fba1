// The watch's thread: runs a Watcher and does what the main thread says. It works while the main thread is blocked. The thread of an
// elastic job runs one watcher after the other, each for one generation: starting a thread takes longer than all the rest.

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { toFailureRecord } from '../../control/control-block.ts';
import { HorovodError } from '../../errors.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import type { WatchOrder, WatchReport, WatchThreadData } from './orders.ts';
import { Watcher } from './watcher.ts';

run();

function run(): void {
  const port = parentPort;
  const { secretHex, served, isKept } = workerData as WatchThreadData;
  const secret = JobSecret.fromHex(secretHex);
  if (port === null || secret === undefined) throw new Error('this file is the thread of a watch');
  const lastServed = new Int32Array(served);
  let turn: Turn | undefined;
  port.on('message', (order: WatchOrder) => {
    switch (order.type) {
      case 'open':
        turn?.end();
        turn = new Turn(port, order, secret, isKept);
        return;
      case 'connect':
        turn?.connect(order.candidates, order.timeoutMs);
        return;
      case 'abort':
        turn?.abort();
        return;
      case 'tell':
        turn?.watcher?.tell();
        break;
      case 'leave':
        turn?.leave();
        break;
      case 'exit':
        turn?.watcher?.exit(order.code);
        break;
      default:
        order satisfies never;
    }
    if ('number' in order) {
      Atomics.store(lastServed, 0, order.number);
      Atomics.notify(lastServed, 0);
    }
  });
}

/** The thread while it watches for one generation. */
class Turn {
  watcher: Watcher | undefined;
  readonly #port: MessagePort;
  readonly #number: number;
  readonly #isKept: boolean;
  readonly #abort = new AbortController();
  #isOver = false;

  constructor(
    port: MessagePort,
    { watch, options }: WatchOrder & { type: 'open' },
    secret: JobSecret,
    isKept: boolean,
  ) {
    this.#port = port;
    this.#number = watch;
    this.#isKept = isKept;
    void this.#open({ ...options, secret });
  }

  connect(candidates: readonly (readonly string[])[], timeoutMs: number): void {
    const { watcher } = this;
    if (watcher === undefined) return;
    watcher.connect(candidates, { timeoutMs, signal: this.#abort.signal }).then(
      () => this.#report({ watch: this.#number, type: 'connected' }),
      (error: unknown) => {
        this.#reportFailure(error);
        watcher.end();
      },
    );
  }

  abort(): void {
    this.#abort.abort();
  }

  leave(): void {
    this.abort();
    this.watcher?.leave();
    // Other ranks of this host have left this generation as well, or are about to.
    if (this.#isKept) this.end();
  }

  end(): void {
    this.#isOver = true;
    this.abort();
    this.watcher?.end();
  }

  async #open(options: Parameters<typeof Watcher.open>[0]): Promise<void> {
    try {
      const watcher = await Watcher.open(options);
      this.watcher = watcher;
      if (this.#isOver) {
        watcher.end();
        return;
      }
      if (!this.#isKept) void watcher.over.then(() => this.#port.close());
      this.#report({ watch: this.#number, type: 'opened', candidates: watcher.candidates });
    } catch (error) {
      this.#reportFailure(error);
      if (!this.#isKept) this.#port.close();
    }
  }

  #report(report: WatchReport): void {
    this.#port.postMessage(report);
  }

  #reportFailure(thrown: unknown): void {
    this.#report({
      watch: this.#number,
      type: 'failed',
      failure: toFailureRecord(asHorovodError(thrown)),
    });
  }
}

function asHorovodError(thrown: unknown): HorovodError {
  return HorovodError.is(thrown)
    ? thrown
    : new HorovodError(
        'ERR_HVD_RENDEZVOUS',
        `the thread that watches the other hosts has failed: ${String(thrown)}.`,
        {
          cause: thrown,
        },
      );
}
