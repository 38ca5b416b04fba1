// The thread of a dispatcher on the training side: it answers while the main thread trains.

import { type MessagePort, workerData } from 'node:worker_threads';
import { type PlainError, plainError } from '../execute/thread-messages.ts';
import { TfDataServiceConfig, type TfDataServiceConfigJson } from './config.ts';
import { runDispatcher } from './worker-process.ts';

/** What the thread gets at its start. */
export interface DispatcherThreadData {
  readonly config: TfDataServiceConfigJson;
  readonly index: number;
  readonly port: MessagePort;
}

export type DispatcherThreadReport =
  | { readonly kind: 'open'; readonly incarnation: number; readonly addresses: readonly string[] }
  | { readonly kind: 'failed'; readonly error: PlainError };

await run(workerData as DispatcherThreadData);

async function run({ config: json, index, port }: DispatcherThreadData): Promise<void> {
  const config = TfDataServiceConfig.fromJSON(json);
  const client = config.computeClient();
  const ending = new AbortController();
  const report = (message: DispatcherThreadReport) => port.postMessage(message);
  port.on('message', () => ending.abort());
  try {
    const onOpen = (place: { incarnation: number; addresses: readonly string[] }) =>
      report({ kind: 'open', ...place });
    await runDispatcher({ config, client, index, signal: ending.signal, onOpen });
  } catch (error) {
    report({ kind: 'failed', error: plainError(error) });
  } finally {
    await client.close();
    port.close();
  }
}
