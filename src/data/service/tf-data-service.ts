// A trainer's part in a data service: its dispatcher, where dispatchers are on the training side, in a thread.

import { MessageChannel, Worker } from 'node:worker_threads';
import { HorovodError } from '../../errors.ts';
import { formatAddress, parseAddress } from '../../net/addresses.ts';
import { waitFor } from '../../net/wait.ts';
import { errorOf } from '../execute/thread-messages.ts';
import type { TfDataServiceConfig } from './config.ts';
import type { DispatcherThreadData, DispatcherThreadReport } from './dispatcher-thread.ts';

/** A dispatcher that a trainer has found. Its text is its first address. */
export class DispatcherHandle {
  readonly config: TfDataServiceConfig;
  readonly index: number;
  readonly #addresses: readonly string[];

  constructor(config: TfDataServiceConfig, index: number, addresses: readonly string[]) {
    this.config = config;
    this.index = index;
    this.#addresses = addresses;
  }

  toString(): string {
    const address = parseAddress(this.#addresses[0] ?? '');
    return address === undefined ? '' : formatAddress(address);
  }
}

export interface DispatcherPart {
  readonly dispatcherAddress: DispatcherHandle;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** How long the thread may take to end by itself. */
const endingMs = 5000;

/** Opens the dispatcher where it belongs to this trainer, and waits for it and its workers. */
export async function openDispatcherFor(
  config: TfDataServiceConfig,
  rank: number,
  index: number,
): Promise<DispatcherPart> {
  const isOwn = config.dispatcherSide === 'training' && (config.dispatchers > 1 || rank === 0);
  const thread = isOwn ? await DispatcherThread.start(config, index) : undefined;
  const client = config.computeClient();
  try {
    const { addresses } = await client.waitForDispatcher(index, { timeoutMs: config.timeout * 1000 });
    await client.waitForWorkers(index);
    const close = async () => thread?.close();
    return {
      dispatcherAddress: new DispatcherHandle(config, index, addresses),
      close,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await thread?.close();
    throw error;
  } finally {
    await client.close();
  }
}

class DispatcherThread {
  readonly #thread: Worker;
  readonly #end: () => void;

  static async start(config: TfDataServiceConfig, index: number): Promise<DispatcherThread> {
    let thread: DispatcherThread | undefined;
    try {
      await waitFor<void>(
        (resolve, reject) => {
          thread = new DispatcherThread(config, index, resolve, reject);
        },
        `for dispatcher ${index} of the data service to start`,
        { timeoutMs: config.timeout * 1000 },
      );
    } catch (error) {
      await thread?.close();
      throw error;
    }
    return thread as unknown as DispatcherThread;
  }

  private constructor(
    config: TfDataServiceConfig,
    index: number,
    onOpen: () => void,
    onFailed: (error: HorovodError) => void,
  ) {
    const { port1, port2 } = new MessageChannel();
    const data: DispatcherThreadData = { config: config.toJSON(), index, port: port2 };
    this.#thread = new Worker(new URL('./dispatcher-thread.js', import.meta.url), {
      workerData: data,
      transferList: [port2],
      name: 'horovod data dispatcher',
    });
    this.#end = () => port1.postMessage('end');
    const fail = (text: string, cause?: unknown) =>
      onFailed(new HorovodError('ERR_HVD_DATA_SERVICE', `data service: ${text}`, { cause }));
    this.#thread.on('error', (error) =>
      fail(`the thread of dispatcher ${index} has failed: ${error}`, error),
    );
    this.#thread.on('exit', (code) => fail(`the thread of dispatcher ${index} has ended with code ${code}`));
    port1.on('message', (report: DispatcherThreadReport) => {
      if (report.kind === 'open') {
        this.#thread.unref();
        port1.unref();
        onOpen();
        return;
      }
      const error = errorOf(report.error);
      if (HorovodError.is(error)) onFailed(error);
      else fail(error.message, error);
    });
  }

  async close(): Promise<void> {
    if (this.#thread.threadId < 0) return;
    this.#thread.ref();
    const ended = new Promise<void>((resolve) => this.#thread.once('exit', () => resolve()));
    this.#end();
    const timer = setTimeout(() => void this.#thread.terminate(), endingMs);
    await ended;
    clearTimeout(timer);
  }
}
