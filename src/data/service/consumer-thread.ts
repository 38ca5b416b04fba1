// The thread of a consumer: its connections, and a client of the registry. Batches go to the main thread without being copied.

import { type MessagePort, workerData } from 'node:worker_threads';
import { plainError } from '../execute/thread-messages.ts';
import { TfDataServiceConfig, type TfDataServiceConfigJson } from './config.ts';
import { Consumer, type ConsumerOptions } from './consumer.ts';
import type { ConsumerEvent, ConsumerOrder } from './consumer-messages.ts';
import { DispatcherSource } from './service-parts.ts';
import { runComputeWorker, serviceIdentity } from './worker-process.ts';

/** What the thread gets at its start. */
export interface ConsumerThreadData
  extends Omit<ConsumerOptions, 'identity' | 'find' | 'post' | 'timeoutMs' | 'silenceMs' | 'work'> {
  readonly config: TfDataServiceConfigJson;
  /** Instead of failing when all compute workers are lost. */
  readonly worksWhenLost: boolean;
  readonly port: MessagePort;
  /** Counts events, for a main thread that is blocked. */
  readonly counter: SharedArrayBuffer;
}

run(workerData as ConsumerThreadData);

function run({ config: json, port, counter: shared, worksWhenLost, ...options }: ConsumerThreadData): void {
  const counter = new Int32Array(shared);
  const config = TfDataServiceConfig.fromJSON(json);
  const client = config.computeClient();
  const post = (event: ConsumerEvent) => {
    const memory =
      event.kind === 'batch' && event.payload !== undefined ? [event.payload.buffer as ArrayBuffer] : [];
    port.postMessage(event, memory);
    Atomics.add(counter, 0, 1);
    Atomics.notify(counter, 0);
  };
  const ending = new AbortController();
  let working: Promise<void> | undefined;
  const work = () => {
    working = runComputeWorker({
      config,
      client,
      index: 0,
      dispatcher: options.dispatcher,
      modules: options.request.plan.project || process.cwd(),
      signal: ending.signal,
      log: () => {},
    }).catch((error: unknown) => {
      if (!ending.signal.aborted) post({ kind: 'failed', error: plainError(error) });
    });
    const text =
      'All compute workers of the data service are lost: this trainer does their work from here on, which takes time from training.';
    post({ kind: 'warning', text });
  };
  const consumer = new Consumer({
    ...options,
    identity: serviceIdentity(config.key),
    find: new DispatcherSource(client, options.dispatcher),
    timeoutMs: config.timeout * 1000,
    work: worksWhenLost ? work : undefined,
    post,
  });
  port.on('message', (order: ConsumerOrder) => {
    consumer.order(order);
    if (order.kind !== 'close') return;
    ending.abort();
    void Promise.resolve(working)
      .then(() => client.close())
      .finally(() => port.close());
  });
}
