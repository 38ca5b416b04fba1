// The watch's thread: runs a Watcher and does what the main thread says. It works while the main thread is blocked.

import { parentPort, workerData } from 'node:worker_threads';
import { toFailureRecord } from '../../control/control-block.ts';
import { HorovodError } from '../../errors.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import type { WatchOrder, WatchReport, WatchThreadData } from './orders.ts';
import { Watcher } from './watcher.ts';

await run();

async function run(): Promise<void> {
  const port = parentPort;
  const { options, secretHex, served } = workerData as WatchThreadData;
  const secret = JobSecret.fromHex(secretHex);
  if (port === null || secret === undefined) throw new Error('this file is the thread of a watch');
  const report = (message: WatchReport) => port.postMessage(message);
  const reportFailure = (thrown: unknown) =>
    report({ type: 'failed', failure: toFailureRecord(asHorovodError(thrown)) });
  const abort = new AbortController();
  const lastServed = new Int32Array(served);
  let watcher: Watcher;
  try {
    watcher = await Watcher.open({ ...options, secret });
  } catch (error) {
    reportFailure(error);
    port.close();
    return;
  }
  void watcher.over.then(() => port.close());
  port.on('message', (order: WatchOrder) => {
    switch (order.type) {
      case 'connect':
        watcher.connect(order.candidates, { timeoutMs: order.timeoutMs, signal: abort.signal }).then(
          () => report({ type: 'connected' }),
          (error: unknown) => {
            reportFailure(error);
            watcher.end();
          },
        );
        return;
      case 'abort':
        abort.abort();
        return;
      case 'tell':
        watcher.tell();
        break;
      case 'leave':
        abort.abort();
        watcher.leave();
        break;
      case 'exit':
        watcher.exit(order.code);
        break;
      default:
        order satisfies never;
    }
    if ('number' in order) {
      Atomics.store(lastServed, 0, order.number);
      Atomics.notify(lastServed, 0);
    }
  });
  report({ type: 'opened', candidates: watcher.candidates });
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
