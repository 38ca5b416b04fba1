// A process of an elastic job. It has one connection to the driver for all its life, and a context for each generation that it
// is in. What outlives a generation is here: that connection, the memory that other ranks reach, the thread that watches other
// hosts, the step clock, and what autotune has settled on.

import { SettledResults } from '../engine/autotune/settled-results.ts';
import { StepClock } from '../engine/step-clock.ts';
import { HorovodError } from '../errors.ts';
import { dynamicFile, TimelineHistory } from '../observe/timeline/timeline.ts';
import { isChosen, markAbsent, ProcessSet } from '../operations/process-set.ts';
import { generationPrefix, type Seat } from '../rendezvous/elastic-messages.ts';
import { type JoinedJob, joinJob } from '../rendezvous/join.ts';
import { seatedJob } from '../rendezvous/seated-job.ts';
import type { Store } from '../rendezvous/store/store.ts';
import type { Settings } from '../settings/table.ts';
import { loadNative } from '../transport/native/load.ts';
import { ReachableMemory } from '../transport/native/reachable-memory.ts';
import type { HorovodContext } from './context.ts';
import type { World } from './context-parts.ts';
import { KeptWatch } from './host-watch/host-watch.ts';
import { createContext, type InitOptions } from './start/bootstrap.ts';
import { whereabouts } from './start/hosts.ts';

/** Until silence counts as the loss of a host, in a job without a launcher. */
const peerTimeoutMs = 5000;

export class ElasticWorker {
  /** In the job; no other process ever has it. */
  readonly number: number;
  readonly hostname: string;
  readonly #settings: Settings;
  readonly #options: InitOptions;
  readonly #processSet: ProcessSet;
  readonly #job: JoinedJob;
  readonly #memory = new ReachableMemory();
  readonly #watch = new KeptWatch();
  readonly #steps = new StepClock();
  readonly #tuning = new SettledResults();
  readonly #timelines = new TimelineHistory();
  #hasRun = false;

  private constructor(
    { settings, worker }: { settings: Settings; worker: number },
    options: InitOptions,
    processSet: ProcessSet,
    job: JoinedJob,
  ) {
    this.number = worker;
    this.hostname = whereabouts(settings.hostname).hostname;
    this.#settings = settings;
    this.#options = options;
    this.#processSet = processSet;
    this.#job = job;
    // The first worker of a host will probably watch the others for it. Its thread starts while it waits for a seat, and not while
    // everybody waits for it.
    if (settings.localRank === 0 && settings.crossSize > 1) this.#watch.prepare(job.secret);
  }

  /** Connects with the driver. `worker`: its number; undefined in a job without a launcher, which gives it one. `options` hold for every generation, and so does `processSet`, the set of all ranks. */
  static async join(
    settings: Settings,
    worker: number | undefined,
    options: InitOptions,
    processSet: ProcessSet,
  ): Promise<ElasticWorker> {
    const { signal, timeoutMs } = options;
    if (worker !== undefined) {
      const job = await joinJob({ ...settings, rank: worker, size: worker + 1 }, { signal, timeoutMs });
      return new ElasticWorker({ settings, worker }, options, processSet, job);
    }
    const job = await joinJob(settings, { signal, timeoutMs });
    const { rank, size } = job;
    // As horovodrun sets it for elastic jobs.
    const patience = settings.given.has('peerTimeoutMs') ? {} : { peerTimeoutMs };
    const own = { ...settings, ...patience, rank, size: Math.max(size, rank + 1) };
    return new ElasticWorker({ settings: own, worker: rank }, options, processSet, job);
  }

  /** How the driver and the workers meet. */
  get store(): Store {
    return this.#job.store;
  }

  /** For tensors that exist before the first generation and go on through all of them. */
  alloc(bytes: number): ArrayBufferLike {
    const native = loadNative(this.#settings);
    return native.built
      ? this.#memory.alloc(native.addon, bytes, this.#settings.rank)
      : new ArrayBuffer(bytes);
  }

  /** What is planned for this worker, for the time before its first generation. */
  get world(): World {
    const { rank, size, localRank, localSize, crossRank, crossSize } = this.#settings;
    return { rank, size, localRank, localSize, crossRank, crossSize, isHomogeneous: true };
  }

  /** An elastic job ends with its run(): nobody would take part in a second one who has come meanwhile. */
  beginRun(): void {
    if (this.#hasRun) {
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        'elastic.run() was called a second time. An elastic job has one call of it, in which all of the training happens.',
      );
    }
    this.#hasRun = true;
  }

  /** Collective over the workers of the generation. */
  async form(seat: Seat, signal?: AbortSignal): Promise<HorovodContext> {
    const { timeoutMs, processSets } = this.#options;
    const settings = { ...this.#settings, rank: seat.rank, size: seat.size };
    const job = seatedJob(this.#job, seat);
    this.#timelines.enter(seat.generation);
    const seating = {
      seat,
      prefix: generationPrefix(seat.generation),
      job,
      number: this.number,
      memory: this.#memory,
      watch: this.#watch,
      steps: this.#steps,
      tuning: this.#tuning,
      timelines: this.#timelines,
    };
    const options: InitOptions = {
      timeoutMs,
      signal,
      processSets: setsOf(processSets, seat),
    };
    const context = await createContext(settings, options, 1, this.#processSet, seating);
    await context.timeline.startBySettings(
      timelineFile(settings.timelineFile, seat.since[0] ?? 1),
      settings.timelineMarkCycles,
    );
    return context;
  }

  close(): void {
    this.#job.close();
    this.#watch.close();
    this.#memory.close();
  }
}

/**
 * Sets of init() that the generation has: those that choose their ranks, and those whose ranks are the workers that had these numbers
 * when the job began. Every rank comes to the same answer, also one that has just joined. The others have no id any more.
 */
function setsOf(
  sets: InitOptions['processSets'],
  { generation, since, previousSize }: Seat,
): InitOptions['processSets'] {
  if (!Array.isArray(sets) || previousSize === 0) return sets;
  return (sets as readonly ProcessSet[]).filter((set) => {
    if (!(set instanceof ProcessSet) || isChosen(set)) return true;
    const gone = set.ranks.filter((rank) => since[rank] !== 1);
    if (gone.length === 0) return true;
    markAbsent(
      set,
      `has no id in generation ${generation} of the job: rank ${gone.join(', ')} of it ${gone.length === 1 ? 'is' : 'are'} ` +
        'not the process that had this number when the job began. ' +
        'Use new ProcessSet((world) => ranks), which chooses its ranks again for every membership.',
    );
    return false;
  });
}

/**
 * One file for as long as rank 0, which writes it, is the same process: `timeline.json`, and `timeline.g4.json` from the
 * generation on in which another one became rank 0.
 */
function timelineFile(file: string | undefined, rootSince: number): string | undefined {
  if (file === undefined || file === '' || file === dynamicFile || rootSince === 1) return file;
  return file.replace(/(\.[^./]*)?$/, `.g${rootSince}$1`);
}
