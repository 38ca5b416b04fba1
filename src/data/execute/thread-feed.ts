// A feed that works ahead in threads: one reads, the others compute. Results come in any order and are handed out in the order of
// the items. The threads end with the feed and never keep the process alive, except while somebody waits for a result.

import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { HorovodError } from '../../errors.ts';
import type { Feed } from './feed.ts';
import { endedError } from './pieces.ts';
import { isTensor } from './stack.ts';
import {
  type ComputeThreadData,
  errorOf,
  type ReaderOrder,
  type ReaderThreadData,
  type Recycled,
  type ThreadReport,
} from './thread-messages.ts';
import type { Computed, WorkItem } from './work.ts';

export interface ThreadFeedOptions {
  readonly threads: number;
  /** How long threads may report nothing while the loop waits for them. */
  readonly maxSilenceMs: number;
  /** Memory for what is handed out. */
  readonly allocate: (bytes: number) => ArrayBuffer;
  readonly reader: Omit<ReaderThreadData, 'main' | 'computers' | 'counter'>;
  readonly compute: Omit<ComputeThreadData, 'main' | 'reader' | 'counter'>;
}

type Result = { readonly computed: Computed; readonly port: MessagePort } | { readonly error: Error };

/** How long threads may take to end by themselves. */
const endingMs = 5000;
/** Starting threads loads modules, which takes seconds on a busy machine. */
const minStartMs = 120_000;
/** What timers can count. */
const maxTimerMs = 2 ** 31 - 1;

export class ThreadFeed implements Feed {
  readonly worksAhead = true;
  readonly #counter = new Int32Array(new SharedArrayBuffer(4));
  readonly #workers: Worker[] = [];
  /** The reader's first. */
  readonly #ports: MessagePort[] = [];
  readonly #results = new Map<number, Result>();
  /** After a thread has ended without being asked to. */
  #broken: Error | undefined;
  #open = 0;
  #submitted = 0;
  #taken = 0;
  #isClosing = false;
  readonly #maxSilenceMs: number;
  readonly #allocate: (bytes: number) => ArrayBuffer;
  #wake: () => void = () => {};

  /** Resolves when all threads have loaded what they need. */
  static async start(options: ThreadFeedOptions): Promise<ThreadFeed> {
    const feed = new ThreadFeed(options);
    try {
      const limitMs = Math.max(feed.#maxSilenceMs, minStartMs);
      await feed.#wait(() => feed.#open === feed.#workers.length, limitMs);
    } catch (error) {
      await feed.close();
      throw error;
    }
    return feed;
  }

  private constructor({ threads, maxSilenceMs, allocate, reader, compute }: ThreadFeedOptions) {
    this.#allocate = allocate;
    this.#maxSilenceMs = Math.min(maxSilenceMs, maxTimerMs);
    const counter = this.#counter.buffer as SharedArrayBuffer;
    const toReader = new MessageChannel();
    const computers: MessagePort[] = [];
    const mains: MessagePort[] = [];
    for (let thread = 0; thread < threads; thread += 1) {
      const toMain = new MessageChannel();
      const between = new MessageChannel();
      computers.push(between.port1);
      mains.push(toMain.port1);
      const data: ComputeThreadData = { ...compute, main: toMain.port2, reader: between.port2, counter };
      this.#start('compute', data, [toMain.port2, between.port2]);
    }
    const data: ReaderThreadData = { ...reader, main: toReader.port2, computers, counter };
    this.#start('reader', data, [toReader.port2, ...computers]);
    for (const port of [toReader.port1, ...mains]) {
      this.#ports.push(port);
      port.on('message', (message: ThreadReport) => {
        this.#receive(message, port);
        this.#wake();
      });
      port.unref();
    }
  }

  submit(item: WorkItem): void {
    this.#submitted += 1;
    this.#ports[0]?.postMessage({ type: 'item', item } satisfies ReaderOrder);
  }

  take(): Computed | Promise<Computed> {
    this.#drain();
    const number = this.#taken++;
    if (this.#results.has(number)) return this.#handOut(number);
    return this.#wait(() => this.#results.has(number)).then(() => this.#handOut(number));
  }

  takeSync(): Computed {
    const number = this.#taken++;
    for (;;) {
      const seen = Atomics.load(this.#counter, 0);
      this.#drain();
      if (this.#results.has(number)) return this.#handOut(number);
      if (this.#broken !== undefined) throw this.#broken;
      // A thread that has died cannot say so while this one is blocked.
      if (Atomics.wait(this.#counter, 0, seen, this.#maxSilenceMs) === 'timed-out')
        throw silentError(this.#maxSilenceMs);
    }
  }

  async close(): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#broken ??= endedError();
    this.#wake();
    const ended = this.#workers.map(
      (worker) =>
        new Promise<void>((resolve) => {
          if (worker.threadId < 0) resolve();
          else worker.once('exit', () => resolve());
        }),
    );
    this.#ports[0]?.postMessage({ type: 'close' } satisfies ReaderOrder);
    const timer = setTimeout(() => {
      for (const worker of this.#workers) void worker.terminate();
    }, endingMs);
    for (const worker of this.#workers) worker.ref();
    await Promise.all(ended);
    clearTimeout(timer);
    for (const port of this.#ports) port.close();
  }

  #start(kind: 'reader' | 'compute', data: ReaderThreadData | ComputeThreadData, ports: MessagePort[]): void {
    const worker = new Worker(new URL(`./${kind}-thread.js`, import.meta.url), {
      workerData: data,
      transferList: ports,
      name: `horovod data ${kind}`,
    });
    const end = (reason: string, cause?: unknown) => {
      if (this.#isClosing) return;
      const text = `a thread that prepares data (${kind}) has ended: ${reason}`;
      this.#broken ??= new HorovodError('ERR_HVD_DATA_FUNCTION', text, { cause });
      this.#wake();
    };
    worker.on('error', (error) => end(error instanceof Error ? error.message : String(error), error));
    worker.on('exit', (code) => end(`exit code ${code}`));
    worker.unref();
    this.#workers.push(worker);
  }

  #receive(message: ThreadReport, port: MessagePort): void {
    if (message.type === 'open') this.#open += 1;
    else if (message.type === 'done') this.#results.set(message.number, { computed: message.computed, port });
    else if (message.number === undefined) this.#broken ??= errorOf(message.error);
    else this.#results.set(message.number, { error: errorOf(message.error) });
  }

  #drain(): void {
    for (const port of this.#ports) {
      for (;;) {
        const received = receiveMessageOnPort(port) as { message: ThreadReport } | undefined;
        if (received === undefined) break;
        this.#receive(received.message, port);
      }
    }
  }

  /** Keeps the process alive meanwhile. */
  async #wait(isThere: () => boolean, limitMs: number = this.#maxSilenceMs): Promise<void> {
    for (const port of this.#ports) port.ref();
    try {
      while (!isThere()) {
        if (this.#broken !== undefined) throw this.#broken;
        const isAwake = await new Promise<boolean>((resolve) => {
          const timer = setTimeout(() => resolve(false), limitMs);
          this.#wake = () => {
            clearTimeout(timer);
            resolve(true);
          };
        });
        if (!isAwake) throw silentError(limitMs);
      }
    } finally {
      for (const port of this.#ports) port.unref();
    }
  }

  #handOut(number: number): Computed {
    const result = this.#results.get(number) as Result;
    this.#results.delete(number);
    if ('error' in result) throw result.error;
    const { computed, port } = result;
    const used = new Map<SharedArrayBuffer, number>();
    for (const value of computed.values) findShared(value, used);
    if (used.size === 0) return computed;
    const copies = new Map<SharedArrayBuffer, ArrayBuffer>();
    for (const [buffer, bytes] of used) {
      const copy = this.#allocate(bytes);
      new Uint8Array(copy, 0, bytes).set(new Uint8Array(buffer, 0, bytes));
      copies.set(buffer, copy);
    }
    const values = computed.values.map((value) => moved(value, copies));
    port.postMessage({ buffers: [...used.keys()] } satisfies Recycled);
    return { ...computed, values };
  }
}

/** The shared memory in which a value lies, and how much of it is used. Short records share theirs. */
function findShared(value: unknown, used: Map<SharedArrayBuffer, number>): void {
  if (ArrayBuffer.isView(value)) {
    const { buffer, byteOffset, byteLength } = value;
    if (!(buffer instanceof SharedArrayBuffer)) return;
    used.set(buffer, Math.max(used.get(buffer) ?? 0, byteOffset + byteLength));
  } else if (isTensor(value)) findShared(value.data, used);
  else if (Array.isArray(value)) for (const each of value) findShared(each, used);
  else if (isPlainObject(value)) for (const each of Object.values(value)) findShared(each, used);
}

/** The value with copies in place of shared memory. */
function moved(value: unknown, copies: ReadonlyMap<SharedArrayBuffer, ArrayBuffer>): unknown {
  if (ArrayBuffer.isView(value)) {
    const copy = copies.get(value.buffer as SharedArrayBuffer);
    if (copy === undefined) return value;
    const Kind = value.constructor as Uint8ArrayConstructor;
    return new Kind(copy, value.byteOffset, (value as Uint8Array).length);
  }
  if (isTensor(value)) return { ...value, data: moved(value.data, copies) };
  if (Array.isArray(value)) return value.map((each) => moved(each, copies));
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, moved(each, copies)]));
}

function isPlainObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

function silentError(limitMs: number): HorovodError {
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `the threads that prepare data have delivered nothing for ${limitMs / 1000} s. The most likely cause is a function of map(), filter() or ` +
      'flatMap(), or a source of moduleDataset(), that does not return. If it only needs longer, raise HOROVOD_TIMEOUT_SECONDS.',
  );
}
