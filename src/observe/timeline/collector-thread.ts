// The main thread's side of the collector, which runs on a thread of rank 0 (worker.ts) and writes the file.

import { Worker } from 'node:worker_threads';
import type { Log } from '../../console/log.ts';
import { HorovodError } from '../../errors.ts';
import type { TraceBeginning } from './collector.ts';
import type { CollectorOrder, CollectorReport, CollectorThreadData } from './orders.ts';

/** The thread never keeps the process alive. */
export class CollectorThread {
  readonly opened: Promise<TraceBeginning>;
  readonly #worker: Worker;
  readonly #over = new Int32Array(new SharedArrayBuffer(4));
  readonly #closed: Promise<void>;
  #resolveClosed: () => void = () => {};
  #isOver = false;

  constructor(options: CollectorThreadData['options'], log: Log, onBroken: () => void) {
    const { file } = options;
    const workerData: CollectorThreadData = { options, over: this.#over.buffer as SharedArrayBuffer };
    this.#worker = new Worker(new URL('./worker.js', import.meta.url), {
      workerData,
      // This thread does not need the loaders and the environment of the user's program.
      execArgv: [],
      env: {},
      name: 'horovod timeline',
      resourceLimits: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16 },
    });
    this.#closed = new Promise((done) => {
      this.#resolveClosed = done;
    });
    this.opened = new Promise((resolveOpened, reject) => {
      this.#worker.on('message', (report: CollectorReport) => {
        if (report.type === 'opened') resolveOpened(report.beginning);
        else if (report.type === 'rejected') reject(cannotWriteError(file, report));
        else if (report.type === 'broken') {
          onBroken();
          log.write(
            'warning',
            `the timeline ${file} ends here: ${report.message}. The part written so far is valid; training continues.`,
          );
        }
      });
      this.#worker.on('error', (error) => {
        reject(cannotWriteError(file, { code: 'thread', message: String(error) }));
        if (!this.#isOver)
          log.write('warning', `the timeline ${file} ends here: ${String(error)}. Training continues.`);
        onBroken();
      });
      this.#worker.on('exit', () => {
        this.#isOver = true;
        this.#resolveClosed();
      });
    });
    this.opened.then(
      () => this.#worker.unref(),
      () => {},
    );
  }

  async stop(patienceMs: number): Promise<void> {
    if (this.#isOver) return;
    this.#worker.ref();
    this.#order(patienceMs);
    await this.#closed;
  }

  stopSync(patienceMs: number): void {
    if (this.#isOver) return;
    this.#order(patienceMs);
    Atomics.wait(this.#over, 0, 0, patienceMs + 2000);
    // Completes a pending stop().
    this.#resolveClosed();
  }

  end(): void {
    this.#worker.unref();
  }

  #order(patienceMs: number): void {
    const order: CollectorOrder = { type: 'stop', patienceMs };
    this.#worker.postMessage(order);
  }
}

function cannotWriteError(file: string, { code, message }: { code: string; message: string }): HorovodError {
  const hints: Readonly<Record<string, string>> = {
    ENOENT: 'Its directory does not exist.',
    EACCES: 'This user may not write there.',
    EISDIR: 'It is a directory.',
    EROFS: 'The file system is read-only.',
    ENOSPC: 'The disk is full.',
  };
  return new HorovodError(
    'ERR_HVD_TIMELINE',
    `cannot write the timeline ${file}: ${hints[code] ?? message} Rank 0 writes it: name a file that can be written on its host.`,
    { rank: 0 },
  );
}
