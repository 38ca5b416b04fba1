// The timeline of a rank: off, or on with a recorder and a ring. Rank 0 also runs the collector, which writes the file
// with the events of all ranks whose timeline is on. Starting and stopping are not collectives: each rank may do it at any time.

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { availableParallelism } from 'node:os';
import { relative, resolve } from 'node:path';
import type { Log } from '../../console/log.ts';
import { nowMs, nowUs } from '../../engine/clock.ts';
import type { ObservedOperation, OperationObserver, OperationStage } from '../../engine/observer.ts';
import type { StepMark } from '../../engine/step-clock.ts';
import { HorovodError } from '../../errors.ts';
import { packageVersion } from '../../settings/package.ts';
import type { TraceBeginning } from './collector.ts';
import type { CollectorThread } from './collector-thread.ts';
import type { TimelineRecorder } from './recorder.ts';
import type { Hello } from './records.ts';
import type { RingWriter } from './ring.ts';
import { isRingRead, publishRing } from './ring-registry.ts';
import type { TraceOrigin } from './trace-events.ts';

export interface TimelineOptions {
  /** Also marks when a batch of calls leaves for the other ranks. */
  markCycles?: boolean | undefined;
}

/** What a timeline needs to know about its rank. */
export interface TimelinePlace extends Omit<Hello, 'cores'> {
  readonly log: Log;
  readonly maxBytes: number;
  /** 0: all of them. */
  readonly operationsPerSecond?: number | undefined;
  readonly shmDirectory?: string | undefined;
  /** Of a process of an elastic job, which goes on with its file in the next generation. */
  readonly history?: TimelineHistory | undefined;
  /** Where the ranks of this host meet; undefined for a rank alone. */
  readonly block?: TimelineBlock | undefined;
}

/** The files that a process has begun, as rank 0 of generations before this one. */
export class TimelineHistory {
  readonly #begun = new Map<string, { readonly generation: number; readonly beginning: TraceBeginning }>();
  #generation = 0;

  /** Files of the generations before may be continued. */
  enter(generation: number): void {
    this.#generation = generation;
  }

  begunBefore(file: string): TraceBeginning | undefined {
    const known = this.#begun.get(file);
    return known === undefined || known.generation === this.#generation ? undefined : known.beginning;
  }

  begin(file: string, beginning: TraceBeginning): void {
    this.#begun.set(file, { generation: this.#generation, beginning });
  }
}

/** The control block of the host. */
export interface TimelineBlock {
  readonly fd: number;
  readonly path: string;
  readonly ranks: number;
  readonly hasOtherHosts: boolean;
  /** The number of this rank in the control block. */
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

/** How long rank 0 waits for other ranks to stop their timelines. */
const stopPatienceMs = 2000;
const exitPatienceMs = 1000;
/** How long a rank waits until its events are read: the collector has the lowest priority, and a busy machine delays it. */
const drainMs = 10_000;
const exitDrainMs = 2000;
/** The longest time until a host knows that rank 0 on another host collects. */
const relayMs = 400;

/** Data that was there after so short a time did not keep anybody waiting. */
const minDataWaitMs = 0.05;

/** Set as HOROVOD_TIMELINE: no timeline before startTimeline(). */
export const dynamicFile = 'DYNAMIC';

export class Timeline implements OperationObserver {
  readonly name = 'the timeline';
  /** Undefined while it is off. */
  recorder: TimelineRecorder | undefined;
  readonly #place: TimelinePlace;
  #running: Running | undefined;
  /** A timeline that is off, but whose events are still being read. */
  #ending: Running | undefined;
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #isClosed = false;
  /** When the timeline was started, and when the current step began. */
  #onSinceMs = 0;
  #stepBeganUs = 0;
  /** The approximate time, for quick operations, because reading the clock costs too much. */
  #lastFinishedAtMs = 0;

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
        `startTimeline: rank ${rank} is already writing a timeline${this.#running === undefined ? '' : `, ${this.#running.file}`}. ` +
          'Only one can run at a time: await stopTimeline() first.',
        { rank },
      );
    }
    // Both would use the same place in the control block.
    const before = this.#stopping ?? Promise.resolve();
    this.#starting = before.then(() => this.#start(path, options.markCycles === true));
    try {
      await this.#starting;
    } finally {
      this.#starting = undefined;
    }
  }

  /** For HOROVOD_TIMELINE: errors are logged, and training continues. */
  async startBySettings(file: string | undefined, markCycles: boolean): Promise<void> {
    if (file === undefined || file === '' || file === dynamicFile) return;
    try {
      await this.start(file, { markCycles });
    } catch (error) {
      this.#place.log.write(
        'error',
        `${(error as Error).message} No timeline is written; training continues.`,
      );
    }
  }

  /** Resolves when the file is complete and closed (rank 0), or all events were read (others). Does nothing if it is off. */
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

  /** The same, but blocking and with a shorter timeout, for a rank that leaves. */
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

  beforeQuick(operation: ObservedOperation): void {
    const { recorder } = this;
    if (recorder === undefined) return;
    operation.isTraced = recorder.shows(this.#lastFinishedAtMs);
    // It is a cycle of its own.
    if (operation.isTraced) this.launched();
  }

  afterQuick(operation: ObservedOperation): void {
    if (this.recorder === undefined) return;
    this.#lastFinishedAtMs = operation.finishedAtMs;
    this.recorder.quickOperation(operation);
  }

  submitted(operation: ObservedOperation): void {
    if (this.recorder !== undefined) operation.isTraced = true;
  }

  stage(operation: ObservedOperation, stage: OperationStage): void {
    if (stage === 'slow') operation.isTraced = this.recorder !== undefined;
  }

  launched(): void {
    if (this.recorder?.marksCycles === true) this.recorder.instant('cycles', 'CYCLE_START');
  }

  settled(operation: ObservedOperation): void {
    const { recorder } = this;
    if (recorder === undefined) return;
    this.#lastFinishedAtMs = operation.finishedAtMs;
    if (operation.isTraced && operation.submittedAtMs >= this.#onSinceMs) recorder.operation(operation);
  }

  step({ step, samples, atMs }: StepMark): void {
    const { recorder } = this;
    if (recorder === undefined) return;
    const args = samples === undefined ? '' : `"samples":${samples}`;
    recorder.slice('steps', `step ${step}`, this.#stepBeganUs, atMs * 1e3, args);
    this.#stepBeganUs = atMs * 1e3;
  }

  /** The training loop has waited for a batch. */
  dataWait(fromMs: number, toMs: number): void {
    const { recorder } = this;
    if (recorder === undefined || toMs - fromMs < minDataWaitMs || fromMs < this.#onSinceMs) return;
    recorder.slice('data', 'DATA_WAIT', fromMs * 1e3, toMs * 1e3);
  }

  async #finish(running: Running): Promise<void> {
    const { collector } = running;
    if (collector !== undefined) await collector.stop(stopPatienceMs);
    else await this.#drained(running);
    this.#retire(running);
  }

  async #start(file: string, markCycles: boolean): Promise<void> {
    const { rank, worker, size, host, pid, transport, shmDirectory, block, log, history } = this.#place;
    // Few ranks write a timeline, and modules are a large part of what starting a rank costs.
    const [{ RingWriter, sessionOf }, { CollectorThread }, { defaultOperationsPerSecond, TimelineRecorder }] =
      await Promise.all([import('./ring.ts'), import('./collector-thread.ts'), import('./recorder.ts')]);
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
        const { maxBytes } = this.#place;
        const begun = history?.begunBefore(file);
        const options = { file, maxBytes, ownRing: ring.path, controlBlock, origin: traceOrigin(), begun };
        collector = new CollectorThread(options, log, () => {
          this.recorder = undefined;
        });
        history?.begin(file, await collector.opened);
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
      { rank, worker, size, host, pid, transport, cores: availableParallelism() },
      {
        markCycles,
        maxPerSecond: operationsPerSecond === 0 ? Number.POSITIVE_INFINITY : operationsPerSecond,
      },
    );
    if (block !== undefined) publishRing(block.fd, block.number, ring.path);
    const release = this.#listen(recorder);
    this.#running = { file, recorder, ring, collector, release, isRetired: false };
    this.#onSinceMs = nowMs();
    this.#stepBeganUs = nowUs();
    this.recorder = recorder;
  }

  /** Events that do not come from the engine: phases of training, tuning, the end of the process. */
  #listen(recorder: TimelineRecorder): () => void {
    const onPhases = (message: unknown) => notePhases(recorder, message);
    subscribe(phasesChannel, onPhases);
    const onTuning = (message: unknown) => noteInstant(recorder, 'tuning', 'AUTOTUNE', message);
    subscribe(tuningChannel, onTuning);
    const onReset = (message: unknown) => {
      if (this.#place.rank === 0) noteInstant(recorder, 'resets', 'RESET', message);
    };
    subscribe(resetChannel, onReset);
    const onExit = () => this.close();
    process.once('exit', onExit);
    return () => {
      unsubscribe(phasesChannel, onPhases);
      unsubscribe(tuningChannel, onTuning);
      unsubscribe(resetChannel, onReset);
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
        `${ring.dropped} events of rank ${rank} are missing from the timeline: they came faster than they could be written.`,
      );
    }
    if (!ring.isDrained && this.#isRead) {
      log.write(
        'warning',
        `the last events of rank ${rank} are missing from the timeline: rank 0, which writes it, did not read them in time. ` +
          'The machine is too busy: start fewer processes than it has cores.',
      );
    }
    ring.close();
    collector?.end();
  }

  async #drained(running: Running): Promise<void> {
    const { ring } = running;
    const since = performance.now();
    while (!running.isRetired && this.#isWorthWaiting(ring, performance.now() - since, drainMs)) {
      await new Promise((later) => setTimeout(later, 10));
    }
  }

  #drainSync(ring: RingWriter): void {
    const since = performance.now();
    const clock = new Int32Array(new SharedArrayBuffer(4));
    while (this.#isWorthWaiting(ring, performance.now() - since, exitDrainMs)) Atomics.wait(clock, 0, 0, 5);
  }

  #isWorthWaiting(ring: RingWriter, waitedMs: number, patienceMs: number): boolean {
    if (ring.isDrained || waitedMs >= patienceMs) return false;
    // This host may learn a moment later that rank 0 collects on another host.
    return this.#isRead || (this.#place.block?.hasOtherHosts === true && waitedMs < relayMs);
  }

  /** Whether a process reads the rings of this host. */
  get #isRead(): boolean {
    const { block } = this.#place;
    return block !== undefined && isRingRead(block.fd);
  }
}

const phasesChannel = 'horovod.tensorflow.step';
/** Published by the tuner: { name, args }. */
const tuningChannel = 'horovod.autotune';
/** Published by elastic.run(): { name, args }. */
const resetChannel = 'horovod.elastic.reset';

const phaseNames: Readonly<Record<string, string>> = {
  forwardMs: 'FORWARD',
  backwardMs: 'BACKPROP',
  exposedCommunicationMs: 'EXPOSED_COMMUNICATION',
  updateMs: 'UPDATE',
};

/** See StepTimes of tensorflow/optimizer/step-times.ts; phases are in milliseconds of performance.now(). */
function notePhases(recorder: TimelineRecorder, message: unknown): void {
  const { phases } = message as { phases?: readonly { phase: string; fromMs: number; toMs: number }[] };
  const originUs = nowUs() - performance.now() * 1e3;
  for (const { phase, fromMs, toMs } of phases ?? []) {
    recorder.slice('training', phaseNames[phase] ?? phase, originUs + fromMs * 1e3, originUs + toMs * 1e3);
  }
}

function noteInstant(
  recorder: TimelineRecorder,
  track: 'tuning' | 'resets',
  otherwise: string,
  message: unknown,
): void {
  const { name, args } = message as { name?: unknown; args?: Record<string, unknown> };
  const members = JSON.stringify(args ?? {}).slice(1, -1);
  recorder.instant(track, typeof name === 'string' ? name : otherwise, members);
}

/** The script as the user knows it, and its arguments. */
function traceOrigin(): TraceOrigin {
  const [script = '', ...args] = process.argv.slice(1);
  const near = relative(process.cwd(), script);
  const command = [script === '' || near.startsWith('..') ? script : near, ...args].join(' ');
  return { version: packageVersion(), command: command.slice(0, 500) };
}

function checkFile(file: unknown): string {
  if (typeof file === 'string' && /^[a-z][a-z0-9+.-]+:\/\//i.test(file)) {
    throw new HorovodError(
      'ERR_HVD_TIMELINE',
      `startTimeline: ${file} is a URL, and a timeline is written to a file of this machine. horovodrun --timeline-filename ${file} ` +
        'copies it there when the job has ended.',
    );
  }
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
