// A compute thread: takes read items, one at a time, runs the stages on them and posts the results. Batches lie in shared memory,
// which the main thread sends back when it has copied them.

import { workerData } from 'node:worker_threads';
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
  const { source, columns, seed, main, reader } = data;
  const counter = new Int32Array(data.counter);
  const free: SharedArrayBuffer[] = [];
  const ask = () => reader.postMessage({ type: 'ready' } satisfies ComputeRequest);

  const allocate = (bytes: number): SharedArrayBuffer => {
    const place = free.findIndex(({ byteLength }) => byteLength >= bytes && byteLength <= 2 * bytes + 1024);
    return place < 0 ? new SharedArrayBuffer(bytes) : (free.splice(place, 1)[0] as SharedArrayBuffer);
  };

  let stages: Stages;
  try {
    const { rows, usesFirstStage } = rowsOf(source, data.stages, columns);
    const left = usesFirstStage ? data.stages.slice(1) : data.stages;
    const functions = await functionsOf(left, []);
    stages = new Stages({
      rows,
      stages: left,
      firstStage: usesFirstStage ? 1 : 0,
      functions,
      seed,
      allocate,
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
    ask();
  };

  reader.on('message', (read: ComputeOrder) => void work(read));
  reader.on('close', () => main.close());
  main.on('message', ({ buffers }: Recycled) => {
    free.push(...buffers);
    // Sizes change where batches are padded: the oldest ones go.
    if (free.length > maxFree) free.splice(0, free.length - maxFree);
  });
  report(main, counter, { type: 'open' });
  ask();
}

const maxFree = 64;
