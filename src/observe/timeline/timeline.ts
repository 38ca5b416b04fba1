// The timeline of a rank: off, or on with a recorder and a ring. Rank 0 also runs the collector, which writes the file
// with the events of all ranks that have theirs on. Starting and stopping is no collective: each rank does it when it
// likes.

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { resolve } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Log } from '../../console/log.ts';
import type { Description } from '../../engine/request.ts';
import type { StepClock } from '../../engine/step-clock.ts';
import { HorovodError } from '../../errors.ts';
import type { QuickAllreduce } from '../../transport/transport.ts';
import { OperationTrace } from './operation-trace.ts';
import type { CollectorOrder, CollectorReport, CollectorThreadData } from './orders.ts';
import { defaultOperationsPerSecond, TimelineRecorder } from './recorder.ts';
import type { Hello } from './records.ts';
import { RingWriter, sessionOf } from './ring.ts';
import { collectingHere, publishRing } from './ring-registry.ts';

export interface TimelineOptions {
  /** Also marks when a batch of calls leaves for the other ranks. */
  markCycles?: boolean | undefined;
}

/** What a timeline needs to know of its rank. */
export interface TimelinePlace extends Hello {
  readonly log: Log;
  readonly steps: StepClock;
  readonly mostBytes: number;
  /** 0: all of them. */
  readonly operationsPerSecond?: number | undefined;
  readonly shmDirectory?: string | undefined;
  /** Where the ranks of this host meet; undefined for a rank alone. */
  readonly block?: TimelineBlock | undefined;
}

/** The control block of the host. */
export interface TimelineBlock {
  readonly fd: number;
  readonly path: string;
  readonly ranks: number;
  readonly hasOtherHosts: boolean;
  /** By which it knows this rank. */
  readonly number: number;
}

interface Running {
  readonly file: string;
  readonly recorder: TimelineRecorder;
  readonly ring: RingWriter;
  readonly collector: CollectorThread | undefined;
  readonly release: () => void;
  isRetired: boolean;
}

/** How long rank 0 waits for the others to end theirs. */
const stopPatienceMs = 2000;
const exitPatienceMs = 600;
/** How long a rank waits until what it has written is read. */
const drainMs = 500;
/** How long it takes at most until a host knows that rank 0, on another one, collects. */
const relayMs = 400;

/** Set as HOROVOD_TIMELINE: no timeline before startTimeline(). */
export const dynamicFile = 'DYNAMIC';

export class Timeline {
  /** Undefined while it is off: what the engine looks at. */
  recorder: TimelineRecorder | undefined;
  readonly #place: TimelinePlace;
  #running: Running | undefined;
  /** One that is off, and whose events are still being read. */
  #ending: Running | undefined;
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #isClosed = false;

  constructor(place: TimelinePlace) {
    this.#place = place;
  }

  async start(file: string, options: TimelineOptions = {}): Promise<void> {
    const path = resolve(checkFile(file));
    checkOptions(options);
    const { rank } = this.#place;
    if (this.#running?.file === path) return;
    if (this.#running !== undefined || this.#starting !== undefined) {
      throw new HorovodError(
        'ERR_HVD_TIMELINE',
        `startTimeline: rank ${rank} has a timeline on already, ${this.#running?.file ?? 'which is being started'}. ` +
          'There can be one at a time: await stopTimeline() first.',
        { rank },
      );
    }
    // Both would have the same place in the control block.
    const before = this.#stopping ?? Promise.resolve();
    this.#starting = before.then(() => this.#start(path, options.markCycles === true));
    try {
      await this.#starting;
    } finally {
      this.#starting = undefined;
    }
  }

  /** For HOROVOD_TIMELINE: what goes wrong is logged, and training goes on. */
  async startBySettings(file: string | undefined, markCycles: boolean): Promise<void> {
    if (file === undefined || file === '' || file === dynamicFile) return;
    try {
      await this.start(file, { markCycles });
    } catch (error) {
      this.#place.log.write(
        'error',
        `${(error as Error).message} There will be no timeline; training goes on.`,
      );
    }
  }

  /** Resolves when the file is whole and closed (rank 0), or its reader has all (others). Off already: nothing happens. */
  async stop(): Promise<void> {
    if (this.#starting !== undefined) await this.#starting.catch(() => undefined);
    const running = this.#take();
    if (running !== undefined) {
      this.#ending = running;
      this.#stopping = this.#finish(running).finally(() => {
        this.#ending = undefined;
        this.#stopping = undefined;
      });
    }
    await this.#stopping;
  }

  /** The same, blocking, and with less patience: this rank leaves. */
  close(): void {
    this.#isClosed = true;
    for (const running of [this.#ending, this.#take()]) {
      if (running === undefined || running.isRetired) continue;
      const { ring, collector } = running;
      if (collector !== undefined) collector.stopSync(exitPatienceMs);
      else this.#drainSync(ring);
      this.#retire(running);
    }
  }

  /** The trace of an operation that begins now; undefined while the timeline is off. */
  begin(description: Description, processSet: number): OperationTrace | undefined {
    const { recorder } = this;
    return recorder === undefined ? undefined : new OperationTrace(recorder, description, processSet);
  }

  /** Hands over what has been gathered, before a long wait. */
  flush(): void {
    this.recorder?.flush();
  }

  async #finish(running: Running): Promise<void> {
    const { collector } = running;
    if (collector !== undefined) await collector.stop(stopPatienceMs);
    else await this.#drained(running);
    this.#retire(running);
  }

  async #start(file: string, markCycles: boolean): Promise<void> {
    const { rank, size, host, pid, transport, shmDirectory, block, log } = this.#place;
    const { operationsPerSecond = defaultOperationsPerSecond } = this.#place;
    let ring: RingWriter;
    try {
      ring = new RingWriter({ directory: shmDirectory, session: sessionOf(file) });
    } catch (error) {
      const why = (error as Error).message;
      throw new HorovodError('ERR_HVD_TIMELINE', `startTimeline: rank ${rank}: ${why}`, {
        rank,
        cause: error,
      });
    }
    let collector: CollectorThread | undefined;
    try {
      if (rank === 0) {
        const controlBlock = block && {
          path: block.path,
          ranks: block.ranks,
          hasOtherHosts: block.hasOtherHosts,
        };
        const { mostBytes } = this.#place;
        collector = new CollectorThread({ file, mostBytes, ownRing: ring.path, controlBlock }, log, () => {
          this.recorder = undefined;
        });
        await collector.opened;
      }
      if (this.#isClosed) {
        collector?.stopSync(0);
        throw new HorovodError(
          'ERR_HVD_SHUT_DOWN',
          `startTimeline: rank ${rank} has shut down in the meantime.`,
          { rank },
        );
      }
    } catch (error) {
      ring.close();
      throw error;
    }
    const recorder = new TimelineRecorder(
      ring,
      { rank, size, host, pid, transport },
      {
        markCycles,
        mostPerSecond: operationsPerSecond === 0 ? Number.POSITIVE_INFINITY : operationsPerSecond,
      },
    );
    if (block !== undefined) publishRing(block.fd, block.number, ring.path);
    const release = this.#listen(recorder);
    this.#running = { file, recorder, ring, collector, release, isRetired: false };
    this.recorder = recorder;
  }

  /** Everything that is not an operation: steps and their phases, the end of the process. */
  #listen(recorder: TimelineRecorder): () => void {
    let stepBeganUs = recorder.nowUs();
    const endSteps = this.#place.steps.subscribe(({ step, samples, atMs }) => {
      const args = samples === undefined ? '' : `"samples":${samples}`;
      recorder.slice('steps', `step ${step}`, stepBeganUs, atMs * 1e3, args);
      stepBeganUs = atMs * 1e3;
    });
    const onPhases = (message: unknown) => notePhases(recorder, message);
    subscribe(phasesChannel, onPhases);
    const onTuning = (message: unknown) => noteTuning(recorder, message);
    subscribe(tuningChannel, onTuning);
    const onExit = () => this.close();
    process.once('exit', onExit);
    return () => {
      endSteps();
      unsubscribe(phasesChannel, onPhases);
      unsubscribe(tuningChannel, onTuning);
      process.off('exit', onExit);
    };
  }

  #take(): Running | undefined {
    const running = this.#running;
    this.#running = undefined;
    this.recorder = undefined;
    running?.release();
    running?.recorder.end();
    return running;
  }

  #retire(running: Running): void {
    if (running.isRetired) return;
    running.isRetired = true;
    const { ring, collector } = running;
    const { block, log, rank } = this.#place;
    if (block !== undefined) publishRing(block.fd, block.number, '');
    if (ring.dropped > 0) {
      log.write(
        'warning',
        `${ring.dropped} events of rank ${rank} are not in the timeline: they came faster than they could be written.`,
      );
    }
    ring.close();
    collector?.end();
  }

  async #drained(running: Running): Promise<void> {
    const { ring } = running;
    const since = performance.now();
    while (!running.isRetired && this.#isWorthWaiting(ring, performance.now() - since, stopPatienceMs)) {
      await new Promise((later) => setTimeout(later, 10));
    }
  }

  #drainSync(ring: RingWriter): void {
    const since = performance.now();
    const clock = new Int32Array(new SharedArrayBuffer(4));
    while (this.#isWorthWaiting(ring, performance.now() - since, drainMs)) Atomics.wait(clock, 0, 0, 5);
  }

  #isWorthWaiting(ring: RingWriter, waitedMs: number, patienceMs: number): boolean {
    if (ring.isDrained || waitedMs >= patienceMs) return false;
    // That rank 0 collects on another host is heard a moment later here.
    return this.#isRead || (this.#place.block?.hasOtherHosts === true && waitedMs < relayMs);
  }

  /** Does anybody read the rings of this host? */
  get #isRead(): boolean {
    const { block } = this.#place;
    return block !== undefined && collectingHere(block.fd) !== 'nobody';
  }
}

/** Before a quick operation: its transport notes down its stages while the timeline is on. */
export function traceQuick(timeline: Timeline, quick: QuickAllreduce): void {
  const { recorder } = timeline;
  const isOn = recorder?.shows(quick.lastFinishedAtMs()) ?? false;
  if (quick.isTraced !== isOn) quick.isTraced = isOn;
}

/** The main thread's side of the collector. It never keeps the process alive. */
class CollectorThread {
  readonly opened: Promise<void>;
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
      // Neither loaders of the user's program nor its environment concern the thread.
      ...{ execArgv: [], env: {}, name: 'horovod timeline' },
      resourceLimits: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16 },
    });
    this.#closed = new Promise((done) => {
      this.#resolveClosed = done;
    });
    this.opened = new Promise((resolveOpened, reject) => {
      this.#worker.on('message', (report: CollectorReport) => {
        if (report.type === 'opened') resolveOpened();
        else if (report.type === 'refused') reject(refusedError(file, report));
        else if (report.type === 'broken') {
          onBroken();
          log.write(
            'warning',
            `the timeline ${file} ends here: ${report.message}. What was written before is whole; training goes on.`,
          );
        }
      });
      this.#worker.on('error', (error) => {
        reject(refusedError(file, { code: 'thread', message: String(error) }));
        if (!this.#isOver)
          log.write('warning', `the timeline ${file} ends here: ${String(error)}. Training goes on.`);
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
    // For a stop() that is being waited for.
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

const phasesChannel = 'horovod.tensorflow.step';
/** Published by the tuner: { name, args }. */
const tuningChannel = 'horovod.autotune';

const phaseNames: Readonly<Record<string, string>> = {
  forwardMs: 'FORWARD',
  backwardMs: 'BACKPROP',
  exposedCommunicationMs: 'EXPOSED_COMMUNICATION',
  updateMs: 'UPDATE',
};

/** See StepTimes of tensorflow/optimizer/step-times.ts; phases are in milliseconds of performance.now(). */
function notePhases(recorder: TimelineRecorder, message: unknown): void {
  const { phases } = message as { phases?: readonly { phase: string; fromMs: number; toMs: number }[] };
  const originUs = recorder.nowUs() - performance.now() * 1e3;
  for (const { phase, fromMs, toMs } of phases ?? []) {
    recorder.slice('training', phaseNames[phase] ?? phase, originUs + fromMs * 1e3, originUs + toMs * 1e3);
  }
}

function noteTuning(recorder: TimelineRecorder, message: unknown): void {
  const { name, args } = message as { name?: unknown; args?: Record<string, unknown> };
  const members = JSON.stringify(args ?? {}).slice(1, -1);
  recorder.instant('tuning', typeof name === 'string' ? name : 'AUTOTUNE', members);
}

function checkFile(file: unknown): string {
  if (typeof file === 'string' && file !== '' && file !== dynamicFile) return file;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `startTimeline: expected the name of a file, not ${file === dynamicFile ? `"${dynamicFile}", which is a word for HOROVOD_TIMELINE` : JSON.stringify(file)}.`,
  );
}

function checkOptions(options: TimelineOptions): void {
  const { markCycles } = options;
  if (typeof options === 'object' && (markCycles === undefined || typeof markCycles === 'boolean')) return;
  throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', 'startTimeline: markCycles is true or false.');
}

function refusedError(file: string, { code, message }: { code: string; message: string }): HorovodError {
  const hints: Readonly<Record<string, string>> = {
    ENOENT: 'Its directory does not exist.',
    EACCES: 'This user may not write there.',
    EISDIR: 'It is a directory.',
    EROFS: 'The file system is read-only.',
    ENOSPC: 'The disk is full.',
  };
  return new HorovodError(
    'ERR_HVD_TIMELINE',
    `cannot write the timeline ${file}: ${hints[code] ?? message} Rank 0 writes it, on its host: name a file that can be written there.`,
    { rank: 0 },
  );
}
