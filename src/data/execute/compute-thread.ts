// A compute thread: takes read items, one at a time, runs the stages on them and posts the results. Batches lie in shared memory,
// which the main thread sends back when it has copied them.

import { workerData } from 'node:worker_threads';
import { BufferPool } from './buffer-pool.ts';
import { driveAsync } from './maybe-async.ts';
import { rowsOf } from './source-formats.ts';
import { functionsOf } from './stage-functions.ts';
import { Stages } from './stages.ts';
import {
  type ComputeOrder,
  type ComputeRequest,
  type ComputeThreadData,
  plainError,
  type Recycled,
  report,
} from './thread-messages.ts';

await run(workerData as ComputeThreadData);

async function run(data: ComputeThreadData): Promise<void> {
  const { source, columns, seed, checksRepeats, main, reader } = data;
  const counter = new Int32Array(data.counter);
  const ask = (done: number | undefined) => reader.postMessage({ done } satisfies ComputeRequest);

  const pool = new BufferPool((bytes) => new SharedArrayBuffer(bytes));
  const allocate = (bytes: number) => pool.take(bytes);

  let stages: Stages;
  try {
    const { rows, usesFirstStage } = await rowsOf(source, data.stages, columns, data.known);
    const left = usesFirstStage ? data.stages.slice(1) : data.stages;
    const functions = await functionsOf(left, []);
    stages = new Stages({
      rows,
      stages: left,
      firstStage: usesFirstStage ? 1 : 0,
      functions,
      seed,
      allocate,
      checksRepeats,
    });
  } catch (error) {
    report(main, counter, { type: 'failed', number: undefined, error: plainError(error) });
    main.close();
    reader.close();
    return;
  }

  const work = async (read: ComputeOrder) => {
    const { number } = read.item;
    try {
      const computed = await driveAsync(stages.compute(read));
      report(main, counter, { type: 'done', number, computed });
    } catch (error) {
      report(main, counter, { type: 'failed', number, error: plainError(error) });
    }
    ask(number);
  };

  reader.on('message', (read: ComputeOrder) => void work(read));
  reader.on('close', () => main.close());
  main.on('message', ({ buffers }: Recycled) => {
    for (const buffer of buffers) pool.give(buffer);
  });
  report(main, counter, { type: 'open' });
  ask(undefined);
}
