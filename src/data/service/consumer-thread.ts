// The thread of a consumer: its connections, and a client of the registry. Batches go to the main thread without being copied.

import { type MessagePort, workerData } from 'node:worker_threads';
import { TfDataServiceConfig, type TfDataServiceConfigJson } from './config.ts';
import { Consumer, type ConsumerEvent, type ConsumerOptions, type ConsumerOrder } from './consumer.ts';
import { DispatcherSource } from './service-parts.ts';
import { serviceIdentity } from './worker-process.ts';

/** What the thread gets at its start. */
export interface ConsumerThreadData
  extends Omit<ConsumerOptions, 'identity' | 'find' | 'post' | 'timeoutMs' | 'silenceMs'> {
  readonly config: TfDataServiceConfigJson;
  readonly port: MessagePort;
  /** Counts events, for a main thread that is blocked. */
  readonly counter: SharedArrayBuffer;
}

run(workerData as ConsumerThreadData);

function run({ config: json, port, counter: shared, ...options }: ConsumerThreadData): void {
  const counter = new Int32Array(shared);
  const config = TfDataServiceConfig.fromJSON(json);
  const client = config.computeClient();
  const post = (event: ConsumerEvent) => {
    port.postMessage(event, event.kind === 'batch' ? [event.payload] : []);
    Atomics.add(counter, 0, 1);
    Atomics.notify(counter, 0);
  };
  const consumer = new Consumer({
    ...options,
    identity: serviceIdentity(config.key),
    find: new DispatcherSource(client, options.dispatcher),
    timeoutMs: config.timeout * 1000,
    post,
  });
  port.on('message', (order: ConsumerOrder) => {
    consumer.order(order);
    if (order.kind !== 'close') return;
    void client.close().finally(() => port.close());
  });
}
