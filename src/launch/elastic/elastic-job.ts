// A running elastic job: the shell around the driver. Events of processes, hosts, the store and the clock go in, and the
// driver's orders are carried out: starting and signalling workers, assigning seats, notices. It passes on output, and its exit
// code is 0 if all members of the last generation have finished.

import { setTimeout as sleep } from 'node:timers/promises';
import { HorovodError } from '../../errors.ts';
import type { JobView } from '../../observe/status/job-view.ts';
import type { RecordOrder, RecordProgress } from '../../observe/timeline/record-order.ts';
import { drive } from '../../rendezvous/driver/driver.ts';
import {
  type DriverEvent,
  type DriverState,
  initialState,
  type Limits,
  type Order,
} from '../../rendezvous/driver/driver-state.ts';
import {
  assignmentKey,
  decodeFormed,
  decodeReady,
  encodeAssignment,
  formedKey,
  generationPrefix,
  readyKey,
} from '../../rendezvous/elastic-messages.ts';
import { controlBlockKey } from '../../rendezvous/store/keys.ts';
import type { Store } from '../../rendezvous/store/store.ts';
import { deferred } from '../deferred.ts';
import { FlightRecords } from '../failure-report/flight-records.ts';
import { exitCodeOf, isFailure, type RankEnd, wasEndedByUs } from '../failure-report/root-cause.ts';
import { type Foundation, layFoundation, removeFoundation } from '../job-parts/foundation.ts';
import { Interruption } from '../job-parts/interruption.ts';
import {
  columnsForRank,
  endOf,
  endText,
  errorText,
  lossText,
  outputFinished,
  type RankRecord,
  recordOf,
  signalRunning,
} from '../job-parts/rank-record.ts';
import { defaultGraceMs, noticeMs, within } from '../job-parts/within.ts';
import type { JobRequest } from '../job-request.ts';
import type { HostsRequest } from '../open-hosts.ts';
import { UncaughtErrors } from '../output/uncaught-errors.ts';
import type { RankEnding, StartedRank } from '../ranks/host-ranks.ts';
import { ElasticHosts, type Pinning } from './elastic-hosts.ts';
import type { HostSource } from './host-source.ts';
import { JobStory } from './job-story.ts';

export interface ElasticRequest extends Omit<JobRequest, 'slots' | 'corePinning' | 'gpus'> {
  readonly limits: Limits;
  readonly hangTimeoutMs: number;
  /** What is assigned to the workers of this machine. */
  readonly pinning: Pinning;
  /** Where the list of hosts comes from. */
  readonly hosts: HostSource;
}

/** How often the driver learns the time. */
const tickMs = 100;
/** How long ranks may take to write their flight records before one that hangs is killed. */
const recordsMs = 500;
/** The store serves workers with numbers below this one. */
const maxWorkers = 2 ** 31;

/** How long the output of workers that have ended is waited for. */
const lastOutputMs = 5000;

export class ElasticJob {
  readonly #request: ElasticRequest;
  readonly #foundation: Foundation;
  readonly #hosts: ElasticHosts;
  readonly #records: FlightRecords;
  readonly #errors = new UncaughtErrors();
  readonly #interruption: Interruption;
  readonly #story: JobStory;
  /** Of processes that have not ended. */
  readonly #running = new Map<number, RankRecord>();
  /** Of those that were started, until all of their output is out, with their hosts. */
  readonly #watched = new Map<Promise<void>, string>();
  /** The rank of the moment, or the one it is expected to have. */
  readonly #ranks = new Map<number, number>();
  /** Why a worker was signalled. */
  readonly #reasons = new Map<number, string>();
  readonly #over = deferred();
  readonly #ticker: NodeJS.Timeout;
  #state: DriverState;
  #queue: DriverEvent[] | undefined;
  #lastNews = '';
  /** All workers have ended, and what is left is to clean up. */
  #isOver = false;
  #exitCode = 0;
  #failure: RankEnd | undefined;
  #lastView: JobView | undefined;
  #onWorker: (worker: number) => void = () => undefined;

  private constructor(request: ElasticRequest, foundation: Foundation) {
    this.#request = request;
    this.#interruption = new Interruption(request.say, (signal) => void this.#endAll(signal));
    this.#foundation = foundation;
    this.#state = initialState(request.limits, Date.now() | 0);
    this.#records = new FlightRecords(
      request.flightDirectory,
      foundation.jobId,
      request.remote !== undefined,
    );
    this.#story = new JobStory(request.say);
    const hostsRequest: HostsRequest = {
      ...request,
      ...foundation,
      graceMs: request.graceMs ?? defaultGraceMs,
      terminalColumns: columnsForRank(request, request.terminalColumns),
      watch: {
        hangTimeoutMs: request.hangTimeoutMs,
        onStopped: (worker, isStopped) => this.#tell({ kind: 'stopped', worker, isStopped }),
        onHanging: (worker, generation) => void this.#endHanging(worker, generation),
      },
    };
    this.#hosts = new ElasticHosts(hostsRequest, request.pinning, (event) => this.#tell(event));
    this.#ticker = setInterval(() => this.#tick(), tickMs);
  }

  /** Ends by itself; `finish` waits for it. */
  static async start(request: ElasticRequest): Promise<ElasticJob> {
    const foundation = await layFoundation(request, request.limits.np, maxWorkers);
    const job = new ElasticJob(request, foundation);
    try {
      await request.hosts.start((hosts) => job.#tell({ kind: 'hosts', hosts }));
    } catch (error) {
      clearInterval(job.#ticker);
      await removeFoundation(foundation, request);
      throw error;
    }
    return job;
  }

  /** The store of the workers, for use within this process. */
  get store(): Store {
    return this.#foundation.server.store;
  }

  /** Worker numbers of the last generation, by rank. */
  get workers(): readonly number[] {
    return this.#state.generation?.workers ?? [];
  }

  /** After finish(), if the job has failed because of a rank: that rank, and how it ended. */
  get failure(): RankEnd | undefined {
    return this.#failure;
  }

  /** What the workers are doing, as far as this machine knows. */
  look(): JobView | undefined {
    this.#lastView = this.#hosts.look() ?? this.#lastView;
    return this.#lastView;
  }

  /** All workers record a timeline of the next steps. */
  record(order: RecordOrder): void {
    this.#hosts.record(order);
  }

  /** As far as rank 0 is on this machine. */
  recordProgress(number: number): RecordProgress {
    return this.#hosts.recordProgress(number);
  }

  /** Calls back for each worker that is started, those of the past included. */
  onWorker(callback: (worker: number) => void): void {
    this.#onWorker = callback;
    for (const worker of this.#ranks.keys()) callback(worker);
  }

  /** Passes a signal of horovodrun on to every worker, followed by SIGKILL after a while or on the second signal. */
  interrupt(signal: NodeJS.Signals): void {
    if (!this.#isOver) this.#interruption.receive(signal, this.#running.values());
  }

  /** On SIGUSR2, the workers of this host write their flight records. */
  askForRecords(): void {
    this.#request.say(this.#records.ask(this.#state.generation?.number));
  }

  /** The terminal has this many columns now. */
  resizeTerminal(columns: number): void {
    const width = columnsForRank(this.#request, columns);
    if (width !== undefined) this.#hosts.resizeTerminal(width);
  }

  /** Resolves when every process has ended and all output is out: the exit code of horovodrun. */
  async finish(): Promise<number> {
    await this.#over.promise;
    this.#isOver = true;
    clearInterval(this.#ticker);
    this.#request.hosts.stop();
    await within(Promise.all(this.#watched.keys()), lastOutputMs);
    const missing = new Set(this.#watched.values());
    if (missing.size > 0)
      this.#request.say(`the last output of ranks on ${[...missing].join(', ')} may be missing.`);
    this.look();
    await this.#hosts.close();
    const { exitCode: interrupted } = this.#interruption;
    const { exitCode, report, cause } = this.#story.ending(this.#exitCode);
    const isFailed = interrupted === undefined && exitCode !== 0;
    const why = isFailed ? await this.#request.remote?.places?.explainLoss() : undefined;
    await removeFoundation(this.#foundation, this.#request);
    if (interrupted !== undefined) return interrupted;
    this.#failure = cause;
    const pointer = exitCode === 0 ? [] : [...(why === undefined ? [] : [why]), ...this.#records.pointer()];
    if (report !== undefined) this.#request.say([report, ...pointer].join('\n'));
    return exitCode;
  }

  #tick(): void {
    // It brings the time along.
    this.#tell({ kind: 'tick', now: performance.now() });
  }

  /** One event after the other: carrying out an order may bring the next. */
  #tell(event: DriverEvent): void {
    if (this.#queue !== undefined) {
      this.#queue.push(event);
      return;
    }
    this.#queue = [{ kind: 'tick', now: performance.now() }, event];
    try {
      for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
        const { state, orders } = drive(this.#state, next);
        this.#state = state;
        for (const order of orders) this.#carryOut(order);
        this.#tellNews(next);
      }
    } finally {
      this.#queue = undefined;
    }
  }

  /** For `horovod status`. */
  #tellNews({ kind }: DriverEvent): void {
    if (kind === 'tick') return;
    const news = this.#story.news(this.#state);
    const text = JSON.stringify(news);
    if (text === this.#lastNews) return;
    this.#lastNews = text;
    this.#hosts.tellNews(news);
  }

  #carryOut(order: Order): void {
    this.#story.tell(order);
    switch (order.kind) {
      case 'open-host':
        if (!this.#interruption.hasCome) this.#hosts.open(order.host, this.#slotsOf(order.host));
        return;
      case 'close-host':
        // Its workers have ended, but their last output may still be on its way.
        void this.#hosts.closeHost(order.host, this.#outputOf(order.host));
        return;
      case 'start':
        void this.#start(order);
        return;
      case 'signal':
        this.#signal(order.worker, order.signal, order.why);
        return;
      case 'answer':
        this.#answer(order);
        return;
      case 'form':
        for (const worker of order.workers) void this.#awaitFormed(order.generation, worker);
        this.#watchControlBlocks(order.generation, order.workers);
        return;
      case 'close-generation': {
        const error = new HorovodError(
          'ERR_HVD_PEER_LOST',
          `generation ${order.generation} is over: ${order.why}.`,
        );
        this.#foundation.server.store.closePrefix(generationPrefix(order.generation), error);
        return;
      }
      case 'notice':
        this.#hosts.notice();
        return;
      case 'fail':
        this.#exitCode = 1;
        void this.#endFailed();
        return;
      case 'over':
        this.#over.resolve();
        return;
      case 'reset':
      case 'too-few':
      case 'finish':
        return;
      default:
        order satisfies never;
    }
  }

  /** Resolves when all output of workers that run there is out, or has not come for a while. */
  #outputOf(host: string): Promise<void> {
    const here = [...this.#watched].filter(([, each]) => each === host).map(([watch]) => watch);
    return within(Promise.all(here), lastOutputMs);
  }

  #slotsOf(host: string): number {
    return this.#state.hosts.find(({ name }) => name === host)?.slots ?? 1;
  }

  async #start({ worker, host, slot, rank, size }: Order & { kind: 'start' }): Promise<void> {
    const { hosts } = this.#state;
    const index = hosts.findIndex(({ name }) => name === host);
    const started = await this.#hosts.start(host, {
      hostname: host,
      rank,
      size,
      localRank: slot,
      localSize: Math.max(hosts[index]?.slots ?? 1, slot + 1),
      crossRank: Math.max(index, 0),
      crossSize: Math.max(hosts.length, 1),
      worker,
    });
    this.#ranks.set(worker, rank);
    this.#onWorker(worker);
    const record = recordOf(started, this.#request, this.#errors, () => this.#ranks.get(worker) ?? rank);
    this.#running.set(worker, record);
    // A signal may have come while it was being started.
    if (this.#interruption.hasCome) started.signal('SIGTERM');
    void this.#awaitReports(worker);
    const watch = this.#watch(worker, record, started);
    this.#watched.set(watch, host);
    void watch.finally(() => this.#watched.delete(watch));
  }

  async #watch(worker: number, record: RankRecord, started: StartedRank): Promise<void> {
    const ending = await started.ended;
    record.ending = ending;
    const { end, lost } = ending;
    this.#request.explain(endText(record, ending));
    this.#running.delete(worker);
    const how = this.#howLost(worker, record, ending);
    const { hostname } = record.started.slot;
    const who = `rank ${this.#ranks.get(worker) ?? worker} (${hostname}, pid ${started.pid ?? 'none'})`;
    this.#foundation.server.store.rankLost(
      worker,
      new HorovodError('ERR_HVD_PEER_LOST', `${who} ${how}.`, { rank: worker, pid: started.pid }),
    );
    const isFinishing = this.#state.phase === 'finishing';
    const described = endOf(record);
    if (isFinishing && isFailure(end) && !wasEndedByUs(described)) this.#exitCode ||= exitCodeOf(end);
    this.#story.ended(described, this.#ranks.get(worker) ?? worker, () => endOf(record));
    this.#tell({ kind: 'ended', worker, how, exitCode: exitCodeOf(end), isLost: lost !== undefined });
    await started.cleared;
    await outputFinished(record);
  }

  /** Completes 'rank 1 …'. */
  #howLost(worker: number, record: RankRecord, ending: RankEnding): string {
    const why = this.#reasons.get(worker);
    if (ending.spawnError !== undefined) return `could not be started: ${ending.spawnError}`;
    if (record.started.testament?.wasKilledByFence === true)
      return 'was ended by horovodrun (SIGKILL): it could still write into the memory of other ranks';
    return why === undefined || !wasEndedByUs({ end: ending.end, endedBy: record.endedBy })
      ? `${lossText(record, ending)}${errorText(record, ending)}`
      : `was ended by horovodrun (${record.endedBy}): ${why}`;
  }

  async #awaitReports(worker: number): Promise<void> {
    for (let count = 1; ; count++) {
      let text: string;
      try {
        text = await this.store.get(readyKey(worker, count), { from: worker });
      } catch {
        return; // It has ended.
      }
      try {
        this.#tell({ kind: 'ready', worker, count, ready: decodeReady(text) });
      } catch (error) {
        this.#signal(worker, 'SIGKILL', `it sent ${(error as Error).message}`);
        return;
      }
    }
  }

  async #awaitFormed(generation: number, worker: number): Promise<void> {
    try {
      const text = await this.store.get(formedKey(generation, worker), { from: worker });
      this.#tell({ kind: 'formed', generation, worker, wentBack: decodeFormed(text) });
    } catch {
      // It has ended.
    }
  }

  /** Each host has one, made by its lowest rank. */
  #watchControlBlocks(generation: number, workers: readonly number[]): void {
    const hosts = new Set<string>();
    for (const [rank, worker] of workers.entries()) {
      const host = this.#state.workers.get(worker)?.host;
      if (host === undefined || hosts.has(host)) continue;
      hosts.add(host);
      const key = `${generationPrefix(generation)}${controlBlockKey(1, rank)}`;
      this.store.get(key, { from: worker }).then(
        (path) => this.#hosts.useControlBlock(host, path, workers),
        // Closed before it was formed.
        () => undefined,
      );
    }
  }

  #answer({ worker, count, assignment }: Order & { kind: 'answer' }): void {
    if (assignment.kind === 'seat') this.#ranks.set(worker, assignment.rank);
    void this.store.set(assignmentKey(worker, count), encodeAssignment(assignment)).catch(() => undefined);
  }

  /** Flight records first: they show what it waits for. */
  async #endHanging(worker: number, generation: number): Promise<void> {
    this.#request.explain(`worker ${worker} hangs; ${this.#records.ask(generation)}`);
    await sleep(recordsMs);
    this.#tell({ kind: 'hanging', worker });
  }

  #signal(worker: number, signal: NodeJS.Signals, why: string): void {
    const record = this.#running.get(worker);
    this.#request.explain(`sending ${signal} to worker ${worker}: ${why}`);
    if (record === undefined) return;
    this.#reasons.set(worker, why);
    record.endedBy = signal;
    record.started.signal(signal);
  }

  /** Workers that wait have been told why; others may have something to print or to save. */
  async #endFailed(): Promise<void> {
    await within(this.#over.promise, noticeMs);
    await this.#endAll('SIGTERM');
  }

  async #endAll(signal: NodeJS.Signals): Promise<void> {
    signalRunning(this.#running.values(), signal);
    if (this.#interruption.hasCome) this.#tell({ kind: 'interrupted' });
    await within(this.#over.promise, this.#request.graceMs ?? defaultGraceMs);
    signalRunning(this.#running.values(), 'SIGKILL');
  }
}
