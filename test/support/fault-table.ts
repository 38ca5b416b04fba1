// An elastic job in one process, for faults at every point of it: the driver with its rules, a store over sockets, and workers that form
// their generations over a transport of their choice. Only processes are missing: a worker that dies stops where it is, and the
// launcher's part of a death (exit in the control block, connection gone) is played here.
//
// A *fault* is (point, worker, kind): the worker dies there, its training function throws, or its process is stopped until the driver
// ends it. Points are those of test/support/fault-points.ts and those of the training function below.

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { HorovodContext } from '../../src/context/context.ts';
import { ElasticWorker } from '../../src/context/elastic-worker.ts';
import { HostWatch } from '../../src/context/host-watch/host-watch.ts';
import { ControlBlock } from '../../src/control/control-block.ts';
import { Run } from '../../src/elastic/run-loop.ts';
import { HorovodError } from '../../src/errors.ts';
import { ProcessSet } from '../../src/operations/process-set.ts';
import { drive } from '../../src/rendezvous/driver/driver.ts';
import {
  type DriverEvent,
  type DriverState,
  initialState,
  type Order,
} from '../../src/rendezvous/driver/driver-state.ts';
import {
  assignmentKey,
  decodeFormed,
  decodeReady,
  encodeAssignment,
  formedKey,
  generationPrefix,
  readyKey,
} from '../../src/rendezvous/elastic-messages.ts';
import { controlBlockKey } from '../../src/rendezvous/store/keys.ts';
import type { TcpStore } from '../../src/rendezvous/store/tcp-store.ts';
import { TcpStoreServer } from '../../src/rendezvous/store/tcp-store-server.ts';
import { JobSecret } from '../../src/settings/job-secret.ts';
import { readSettings } from '../../src/settings/read-settings.ts';
import { usualLimits } from './driver-world.ts';
import { pointChannel, type ReachedPoint, watchFaultPoints } from './fault-points.ts';
import { SampledState, type TrainingPoint, trainOnSamples } from './sampled-training.ts';

/** Only for what never happens: a machine under load is slow. */
const patienceMs = 60_000;
const tickMs = 20;
const killed = { signal: 'SIGKILL' } as const;
const mistake = 'a mistake in the training function';

/** Only the training function throws: at the points of it, and in a reset callback. */
export type FaultKind = 'dies' | 'throws' | 'stops';

export type Point = ReachedPoint['point'] | TrainingPoint;

interface LiveWorker {
  readonly number: number;
  readonly host: string;
  readonly state: SampledState;
  joined: ElasticWorker | undefined;
  context: HorovodContext | undefined;
  generation: number;
  watch: HostWatch | undefined;
  isDead: boolean;
  ended: Promise<unknown>;
}

export interface FaultTableOptions {
  /** 'a:2,b:2' */
  readonly hosts: string;
  readonly transport: string;
  readonly np: number;
}

export class FaultTable {
  readonly #options: FaultTableOptions;
  readonly #identity = { secret: JobSecret.generate(), jobId: 'faults' };
  readonly #current = new AsyncLocalStorage<LiveWorker>();
  readonly #workers = new Map<number, LiveWorker>();
  /** Of the newest generation, by host; workers by rank. */
  readonly #blocks = new Map<string, { readonly block: ControlBlock; readonly workers: readonly number[] }>();
  readonly #ended = new Set<number>();
  #faults: { readonly point: Point; readonly worker: number; readonly kind: FaultKind }[] = [];
  #graves: (() => void)[] = [];
  #state: DriverState;
  #queue: DriverEvent[] | undefined;
  #server: TcpStoreServer | undefined;
  #ticker: NodeJS.Timeout | undefined;
  #isOver = false;
  #isEnough = false;
  #failure: string | undefined;
  #undo: (() => void)[] = [];
  readonly results: SampledState[] = [];
  /** What has happened, for a test that fails. */
  readonly story: string[] = [];

  constructor(options: FaultTableOptions) {
    this.#options = options;
    this.#state = initialState({
      ...usualLimits,
      np: options.np,
      max: options.np,
      cooldown: { minMs: 1, maxMs: 2 },
      stoppedTimeoutMs: 50,
    });
  }

  /** Resolves when all ranks train. */
  async start(): Promise<void> {
    this.#server = await TcpStoreServer.start({ ...this.#identity, ranks: 100_000 });
    // Each rank of this process has some, and so have the dead until they are buried.
    const maxListeners = process.getMaxListeners();
    process.setMaxListeners(0);
    this.#undo = [watchFaultPoints(), this.#watchWatches(), () => void process.setMaxListeners(maxListeners)];
    const onPoint = (message: unknown) => this.#onPoint(message as ReachedPoint);
    pointChannel.subscribe(onPoint);
    this.#undo.push(() => pointChannel.unsubscribe(onPoint));
    this.#ticker = setInterval(() => this.#tell({ kind: 'tick', now: performance.now() }), tickMs);
    const hosts = this.#options.hosts.split(',').map((text) => text.split(':'));
    this.#tell({ kind: 'hosts', hosts: hosts.map(([name = '', slots]) => ({ name, slots: Number(slots) })) });
    await this.isWhole();
  }

  /** Of the newest generation, by rank. */
  get ranks(): readonly number[] {
    return this.#state.generation?.workers ?? [];
  }

  /** The number of the worker that is started next. */
  get nextWorker(): number {
    return this.#state.nextWorker;
  }

  /** Lets this happen to the worker when it comes to this point. */
  arm(point: Point, worker: number, kind: FaultKind = 'dies'): void {
    this.#faults.push({ point, worker, kind });
  }

  /** Every fault has happened, and all ranks train: each has done some steps since. */
  async isWhole(): Promise<void> {
    await this.#until('all faults have happened', () => this.#faults.length === 0);
    let since: { generation: number; steps: number } | undefined;
    await this.#until('all ranks train', () => {
      const { phase, generation } = this.#state;
      const isFull = phase === 'running' && generation?.workers.length === this.#options.np;
      if (!isFull || generation === undefined) return false;
      const steps = Math.min(...generation.workers.map((each) => this.#workers.get(each)?.state.steps ?? 0));
      if (since?.generation !== generation.number) since = { generation: generation.number, steps };
      return steps >= since.steps + 2;
    });
    this.#bury();
  }

  /** Ends training at the same step on all ranks, and closes everything. `results` has the states of those that finished. */
  async finish(): Promise<void> {
    this.#isEnough = true;
    try {
      await this.#until('the job is over', () => this.#isOver && this.#faults.length === 0);
    } finally {
      await this.close();
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#ticker);
    for (const worker of this.#workers.values()) if (!worker.isDead) this.#die(worker);
    this.#bury();
    for (const undo of this.#undo.splice(0)) undo();
    for (const { block } of this.#blocks.values()) block.close();
    this.#blocks.clear();
    await this.#server?.close();
  }

  /** The worker on whose behalf this is called goes no further if it has to die here. */
  async #pass(point: Point): Promise<void> {
    const worker = this.#current.getStore();
    if (worker === undefined) return;
    if (!worker.isDead) {
      const place = this.#faults.findIndex((each) => each.point === point && each.worker === worker.number);
      if (place < 0) return;
      const kind = this.#faults.splice(place, 1)[0]?.kind;
      this.story.push(`worker ${worker.number} ${kind} at ${point}`);
      if (kind === 'dies') this.#die(worker);
      else if (kind === 'throws') throw new TypeError(mistake);
      // The driver kills it, and it never gets further than here.
      else this.#tell({ kind: 'stopped', worker: worker.number, isStopped: true });
    }
    await this.#grave(worker);
  }

  #onPoint(reached: ReachedPoint): void {
    reached.hold = this.#pass(reached.point);
  }

  /** Rejects when the generation that it was in is over for all: what it has open is closed then, by its own errors. */
  #grave(worker: LiveWorker): Promise<never> {
    return new Promise((_, reject) => {
      this.#graves.push(() => reject(new Error(`worker ${worker.number} is dead`)));
    });
  }

  #bury(): void {
    for (const grave of this.#graves.splice(0)) grave();
  }

  #die(worker: LiveWorker, how = 'was killed by SIGKILL'): void {
    const { number, host } = worker;
    worker.isDead = true;
    this.#ended.add(number);
    this.#recordExit(host, number);
    void worker.watch?.kill();
    this.#graves.push(() => {
      worker.context?.retire(worker.generation);
      worker.joined?.close();
    });
    (worker.joined?.store as TcpStore | undefined)?.closeAbruptly();
    const lost = new HorovodError('ERR_HVD_PEER_LOST', `worker ${number} ${how}.`, { rank: number });
    this.#server?.store.rankLost(number, lost);
    // The launcher learns of it a little later than the others.
    setImmediate(() => this.#tell({ kind: 'ended', worker: number, how, exitCode: 137, isLost: false }));
  }

  #tell(event: DriverEvent): void {
    if (this.#queue !== undefined) {
      this.#queue.push(event);
      return;
    }
    this.#queue = [{ kind: 'tick', now: performance.now() }, event];
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      const { state, orders } = drive(this.#state, next);
      this.#state = state;
      for (const order of orders) this.#carryOut(order);
    }
    this.#queue = undefined;
  }

  #carryOut(order: Order): void {
    switch (order.kind) {
      case 'open-host':
        this.#tell({ kind: 'host-open', host: order.host });
        return;
      case 'close-host':
        this.#tell({ kind: 'host-closed', host: order.host });
        return;
      case 'start':
        this.#startWorker(order);
        return;
      case 'signal': {
        const worker = this.#workers.get(order.worker);
        this.story.push(`${order.signal} to worker ${order.worker}: ${order.why}`);
        if (worker?.isDead === false) this.#die(worker, `was ended: ${order.why}`);
        return;
      }
      case 'answer':
        void this.#store
          .set(assignmentKey(order.worker, order.count), encodeAssignment(order.assignment))
          .catch(() => undefined);
        return;
      case 'form':
        this.story.push(`generation ${order.generation}: workers ${order.workers.join(', ')}`);
        for (const worker of order.workers) void this.#awaitFormed(order.generation, worker);
        this.#useControlBlocks(order.generation, order.workers);
        return;
      case 'close-generation':
        this.#store.closePrefix(
          generationPrefix(order.generation),
          new HorovodError('ERR_HVD_PEER_LOST', `generation ${order.generation} is over: ${order.why}.`),
        );
        return;
      case 'notice':
        for (const { block } of this.#blocks.values()) block.setNotice();
        return;
      case 'fail':
        this.#failure = `the job failed: ${order.message}`;
        return;
      case 'over':
        this.#isOver = true;
        return;
      case 'reset':
      case 'too-few':
      case 'finish':
        return;
      default:
        order satisfies never;
    }
  }

  get #store(): TcpStoreServer['store'] {
    return (this.#server as TcpStoreServer).store;
  }

  #startWorker({ worker: number, host }: Order & { kind: 'start' }): void {
    const worker: LiveWorker = {
      number,
      host,
      state: new SampledState(),
      joined: undefined,
      context: undefined,
      generation: 0,
      watch: undefined,
      isDead: false,
      ended: Promise.resolve(),
    };
    this.#workers.set(number, worker);
    void this.#awaitReports(number);
    worker.ended = this.#current.run(worker, () => this.#live(worker));
  }

  async #live(worker: LiveWorker): Promise<void> {
    const { number, host, state } = worker;
    const retire = () => worker.context?.retire(worker.generation);
    try {
      const server = this.#server as TcpStoreServer;
      const settings = readSettings({
        HOROVOD_RANK: '0',
        HOROVOD_SIZE: '2',
        HOROVOD_HOSTNAME: host,
        HOROVOD_ELASTIC_WORKER: String(number),
        HOROVOD_RENDEZVOUS_ADDR: server.address,
        HOROVOD_JOB_ID: this.#identity.jobId,
        _HOROVOD_SECRET_KEY: this.#identity.secret.revealForEnvironment(),
        HOROVOD_TRANSPORT: this.#options.transport,
        HOROVOD_LOG_LEVEL: 'error',
      });
      const joined = await ElasticWorker.join(settings, number, {}, new ProcessSet([]));
      worker.joined = joined;
      const job = {
        worker: number,
        hostname: host,
        verifies: false,
        store: joined.store,
        form: async (seat: Parameters<ElasticWorker['form']>[0]) => {
          retire();
          worker.generation = seat.generation;
          worker.context = undefined;
          worker.context = await joined.form(seat);
          state.context = worker.context;
          if (worker.isDead) await this.#grave(worker);
          return worker.context;
        },
        retire,
      };
      state.pass = (point) => this.#pass(point);
      await new Run(job, state, {
        train: () => trainOnSamples(state, () => this.#isEnough),
        save: () => state.save(),
        restore: () => state.restore(),
      }).toTheEnd();
      if (worker.isDead) return;
      this.results.push(state);
      retire();
      joined.close();
      this.#end(worker, 0, 'exited with code 0');
    } catch (error) {
      if (worker.isDead) return;
      if ((error as Error).message === mistake) {
        this.#die(worker, 'exited with code 1');
        return;
      }
      this.story.push(`worker ${number}: ${String(error)}`);
      const isRemoved = HorovodError.is(error) && error.code === 'ERR_HVD_REMOVED';
      if (!isRemoved) this.#failure ??= `worker ${number}: ${(error as Error).stack}`;
      worker.joined?.close();
      this.#end(worker, 1, 'exited with code 1');
    }
  }

  #end(worker: LiveWorker, exitCode: number, how: string): void {
    worker.isDead = true;
    this.#ended.add(worker.number);
    this.#tell({ kind: 'ended', worker: worker.number, how, exitCode, isLost: false });
  }

  async #awaitReports(worker: number): Promise<void> {
    try {
      for (let count = 1; ; count++) {
        const text = await this.#store.get(readyKey(worker, count), { from: worker });
        this.#tell({ kind: 'ready', worker, count, ready: decodeReady(text) });
      }
    } catch {
      // It has ended.
    }
  }

  async #awaitFormed(generation: number, worker: number): Promise<void> {
    try {
      const text = await this.#store.get(formedKey(generation, worker), { from: worker });
      this.#tell({ kind: 'formed', generation, worker, wentBack: decodeFormed(text) });
    } catch {
      // It has ended.
    }
  }

  /** As the launcher does on each host: who has ended is written down in the block of the new generation, too. */
  #useControlBlocks(generation: number, workers: readonly number[]): void {
    const hosts = new Set<string>();
    for (const [rank, number] of workers.entries()) {
      const host = this.#workers.get(number)?.host;
      if (host === undefined || hosts.has(host)) continue;
      hosts.add(host);
      const key = `${generationPrefix(generation)}${controlBlockKey(1, rank)}`;
      this.#store.get(key, { from: number }).then(
        (path) => this.#useControlBlock(host, path, workers),
        () => undefined,
      );
    }
  }

  #useControlBlock(host: string, path: string, workers: readonly number[]): void {
    let block: ControlBlock;
    try {
      block = ControlBlock.open(path);
    } catch {
      return;
    }
    this.#blocks.get(host)?.block.close();
    this.#blocks.set(host, { block, workers });
    for (const number of this.#ended)
      if (this.#workers.get(number)?.host === host) this.#recordExit(host, number);
  }

  #recordExit(host: string, number: number): void {
    const { block, workers } = this.#blocks.get(host) ?? {};
    const rank = workers?.indexOf(number) ?? -1;
    if (rank >= 0) block?.recordExit(rank, killed);
  }

  /** The thread that watches the other hosts dies with its worker. */
  #watchWatches(): () => void {
    const { connect } = HostWatch.prototype;
    const current = this.#current;
    HostWatch.prototype.connect = function (...args) {
      const worker = current.getStore();
      if (worker !== undefined) worker.watch = this;
      return connect.apply(this, args);
    };
    return () => {
      HostWatch.prototype.connect = connect;
    };
  }

  async #until(what: string, isTrue: () => boolean): Promise<void> {
    const deadline = performance.now() + patienceMs;
    while (!isTrue()) {
      const why = this.#failure ?? (performance.now() > deadline ? 'it took too long' : undefined);
      if (why !== undefined)
        assert.fail(`${what}? ${why}\n${this.story.slice(-30).join('\n')}\n${this.#picture()}`);
      await sleep(1);
    }
  }

  #picture(): string {
    const { phase, generation, workers } = this.#state;
    const rows = [...workers.values()].map(
      ({ number, host, report }) =>
        `worker ${number} on ${host}: ${report === undefined ? 'no report' : `report of generation ${report.generation}`}, ` +
        `step ${this.#workers.get(number)?.state.steps}${this.#workers.get(number)?.isDead ? ', dead' : ''}`,
    );
    const left = this.#faults.map(({ point, worker }) => `${worker} at ${point}`).join('; ');
    return `${phase}, generation ${generation?.number}, formed by ${generation?.formed.join(', ')}; to come: ${left}\n${rows.join('\n')}`;
  }
}
