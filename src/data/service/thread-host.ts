// A consumer in a thread of its own: it answers the dispatcher and receives batches while the main thread computes, or is blocked.

import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { HorovodError } from '../../errors.ts';
import { plainError } from '../execute/thread-messages.ts';
import { type ConsumerHost, Waiting } from './consumer-host.ts';
import type { ConsumerEvent, ConsumerOrder } from './consumer-messages.ts';
import type { ConsumerThreadData } from './consumer-thread.ts';

/** How long the thread may take to end by itself. */
const endingMs = 2000;

export class ThreadHost implements ConsumerHost {
  readonly #thread: Worker;
  readonly #port: MessagePort;
  readonly #counter = new Int32Array(new SharedArrayBuffer(4));
  readonly #waiting = new Waiting();
  #onEvent: (event: ConsumerEvent) => void = () => {};
  #isClosed = false;

  constructor(data: Omit<ConsumerThreadData, 'port' | 'counter'>) {
    const { port1, port2: port } = new MessageChannel();
    this.#port = port1;
    const counter = this.#counter.buffer as SharedArrayBuffer;
    this.#thread = new Worker(new URL('./consumer-thread.js', import.meta.url), {
      workerData: { ...data, port, counter } satisfies ConsumerThreadData,
      transferList: [port],
      name: 'horovod data consumer',
    });
    const end = (reason: string, cause?: unknown) => {
      if (this.#isClosed) return;
      const text = `data service: the thread that receives batches has ended: ${reason}`;
      this.#receive({
        kind: 'failed',
        error: plainError(new HorovodError('ERR_HVD_DATA_SERVICE', text, { cause })),
      });
    };
    this.#thread.on('error', (error) => end(String(error), error));
    this.#thread.on('exit', (code) => end(`exit code ${code}`));
    this.#port.on('message', (event: ConsumerEvent) => this.#receive(event));
    this.#thread.unref();
    this.#port.unref();
  }

  listen(onEvent: (event: ConsumerEvent) => void): void {
    this.#onEvent = onEvent;
  }

  order(order: ConsumerOrder): void {
    this.#port.postMessage(order, order.kind === 'memory' ? [order.buffer] : []);
  }

  async wait(limitMs: number): Promise<boolean> {
    this.#port.ref();
    try {
      return await this.#waiting.wait(limitMs);
    } finally {
      this.#port.unref();
    }
  }

  waitSync(limitMs: number): boolean {
    const seen = Atomics.load(this.#counter, 0);
    return this.drain() || Atomics.wait(this.#counter, 0, seen, limitMs) !== 'timed-out';
  }

  drain(): boolean {
    let hasCome = false;
    for (;;) {
      const received = receiveMessageOnPort(this.#port) as { message: ConsumerEvent } | undefined;
      if (received === undefined) return hasCome;
      hasCome = true;
      this.#receive(received.message);
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.order({ kind: 'close' });
    this.#waiting.wake();
    const ended = new Promise<void>((resolve) => {
      if (this.#thread.threadId < 0) resolve();
      else this.#thread.once('exit', () => resolve());
    });
    this.#thread.ref();
    const timer = setTimeout(() => void this.#thread.terminate(), endingMs);
    await ended;
    clearTimeout(timer);
    this.#port.close();
  }

  #receive(event: ConsumerEvent): void {
    this.#onEvent(event);
    this.#waiting.wake();
  }
}
