// The reader thread: reads the records of items into shared memory and gives each item to a compute thread that is free.

import type { MessagePort } from 'node:worker_threads';
import { workerData } from 'node:worker_threads';
import { Files } from '../../files/registry.ts';
import { BufferPool } from './buffer-pool.ts';
import { Reader } from './reader.ts';
import { openerOf } from './source-files.ts';
import { formatOf } from './source-formats.ts';
import {
  type ComputeOrder,
  type ComputeRequest,
  plainError,
  type ReaderOrder,
  type ReaderThreadData,
  report,
} from './thread-messages.ts';
import type { ReadItem, WorkItem } from './work.ts';

run(workerData as ReaderThreadData);

function run(data: ReaderThreadData): void {
  const { source, files, order, interleave, memoryBytes, native, main, computers } = data;
  const counter = new Int32Array(data.counter);
  const fileSystems = new Files(data.fileSettings, data.registrations);
  const pool = new BufferPool((bytes) => new SharedArrayBuffer(bytes));
  const free: MessagePort[] = [];
  /** Items that are read, in their order. */
  const ready = new Map<number, ReadItem>();
  let next = 0;

  const reader = new Reader({
    source: formatOf(source, native, files[0]),
    files,
    order,
    open: openerOf(source, fileSystems),
    allocate: (bytes) => new Uint8Array(pool.take(bytes), 0, bytes),
    recycle: ({ buffer }) => pool.give(buffer as SharedArrayBuffer),
    interleave,
    memoryBytes,
  });

  const hand = () => {
    while (free.length > 0) {
      const read = ready.get(next);
      if (read === undefined) return;
      ready.delete(next);
      next += 1;
      (free.shift() as MessagePort).postMessage(read satisfies ComputeOrder);
    }
  };

  const read = async (item: WorkItem) => {
    try {
      ready.set(item.number, await reader.read(item));
      hand();
    } catch (error) {
      report(main, counter, { type: 'failed', number: item.number, error: plainError(error) });
    }
  };

  const close = async () => {
    for (const port of computers) port.close();
    await reader.close();
    await fileSystems.close();
    main.close();
  };

  for (const port of computers) {
    port.on('message', ({ done }: ComputeRequest) => {
      if (done !== undefined) reader.release(done);
      free.push(port);
      hand();
    });
  }
  main.on('message', (message: ReaderOrder) => {
    if (message.type === 'item') void read(message.item);
    else void close();
  });
  report(main, counter, { type: 'open' });
}
