// The driver of an elastic job without a launcher, in the rank that serves its store: that rank's death ends the job. Processes come by
// themselves, and a connection that ends is a death. It starts nobody, and stops only processes of its own host; who does not answer on
// another host is given up. Orders are those of horovodrun's driver (src/rendezvous/driver).

import { ControlBlock, controlLayout } from '../../control/control-block.ts';
import { HorovodError } from '../../errors.ts';
import { settingError } from '../../settings/setting.ts';
import type { Settings } from '../../settings/table.ts';
import { drive } from '../driver/driver.ts';
import {
  type DriverEvent,
  type DriverState,
  initialState,
  type Limits,
  type Order,
} from '../driver/driver-state.ts';
import { encodeJobNews } from '../driver/job-news.ts';
import { SurvivedLosses } from '../driver/survived-losses.ts';
import {
  type Assignment,
  assignmentKey,
  decodeFormed,
  decodeReady,
  encodeAssignment,
  formedKey,
  generationPrefix,
  readyKey,
} from '../elastic-messages.ts';
import { controlBlockKey } from '../store/keys.ts';
import type { MemoryStore } from '../store/memory-store.ts';

export interface ElasticMeeting {
  readonly limits: Limits;
  /** Whether processes that come later are taken in. */
  readonly canGrow: boolean;
  readonly say: (text: string) => void;
}

/** A process of the job. */
export interface Comer {
  readonly host: string;
  readonly pid: number;
}

const tickMs = 100;

/** Throws ERR_HVD_SETTING for limits that contradict each other. */
export function elasticMeeting(
  settings: Settings,
  size: number,
  say: (text: string) => void,
): ElasticMeeting {
  const { minProcesses: min = size, maxProcesses: max, elasticTimeoutMs, startTimeoutMs } = settings;
  if (min > size)
    throw settingError(`HOROVOD_ELASTIC_MIN_NP is ${min}, and the job starts with ${size} ranks.`);
  if (max !== undefined && max < size)
    throw settingError(`HOROVOD_ELASTIC_MAX_NP is ${max}, and the job starts with ${size} ranks.`);
  return {
    // srun starts no task a second time.
    canGrow: settings.launcher.kind === 'rendezvous',
    say,
    limits: {
      np: size,
      min,
      max,
      spares: 0,
      elasticTimeoutMs,
      readyTimeoutMs: Math.max(elasticTimeoutMs, startTimeoutMs),
      resetLimit: settings.resetLimit,
      cooldown: settings.cooldown,
      collectTimeoutMs: settings.operationTimeoutMs,
      stoppedTimeoutMs: 0,
      isSelfStaffed: true,
    },
  };
}

export class RankDriver {
  readonly #store: MemoryStore;
  readonly #say: (text: string) => void;
  readonly #ownHost: string;
  readonly #comers = new Map<number, Comer>();
  readonly #survived = new SurvivedLosses();
  readonly #ticker: NodeJS.Timeout;
  #state: DriverState;
  #queue: DriverEvent[] | undefined;
  /** Of this host, in the generation that was assigned last. */
  #block: ControlBlock | undefined;
  #isNoticed = false;
  #isStopped = false;
  #lastNews = '';
  #newsWritten = 0;

  /** `own`: the process that serves. */
  constructor(store: MemoryStore, { limits, say }: ElasticMeeting, own: Comer) {
    this.#store = store;
    this.#say = say;
    this.#ownHost = own.host;
    this.#state = initialState(limits);
    this.#ticker = setInterval(() => this.#tell({ kind: 'tick', now: performance.now() }), tickMs);
    // Whoever waits for the driver keeps its process alive.
    this.#ticker.unref();
  }

  /** The number of the new worker; undefined: the job has enough, or is about to end. */
  admit(comer: Comer): number | undefined {
    const { nextWorker, phase, workers, limits } = this.#state;
    if (phase === 'finishing' || phase === 'failing' || phase === 'over') return undefined;
    if (limits.max !== undefined && workers.size >= limits.max) return undefined;
    this.#comers.set(nextWorker, comer);
    this.#tell({ kind: 'arrived', host: comer.host });
    void this.#awaitReports(nextWorker);
    return nextWorker;
  }

  /** Its connection has ended. `how` completes 'rank 1 …'. */
  gone(worker: number, how: string, exitCode: number): void {
    this.#comers.delete(worker);
    this.#tell({ kind: 'ended', worker, how, exitCode, isLost: true });
  }

  stop(): void {
    clearInterval(this.#ticker);
    this.#isStopped = true;
    this.#block?.close();
    this.#block = undefined;
  }

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
        if (next.kind !== 'tick') this.#tellNews();
      }
    } finally {
      this.#queue = undefined;
    }
  }

  #carryOut(order: Order): void {
    switch (order.kind) {
      case 'open-host':
        this.#tell({ kind: 'host-open', host: order.host });
        return;
      case 'close-host':
        for (const { number, host } of this.#state.workers.values())
          if (host === order.host) this.#giveUp(number, `${host} does not reach the other hosts`);
        this.#tell({ kind: 'host-closed', host: order.host });
        return;
      case 'signal':
        this.#giveUp(order.worker, order.why);
        return;
      case 'answer':
        this.#answer(order.worker, order.count, order.assignment);
        return;
      case 'form':
        for (const worker of order.workers) void this.#awaitFormed(order.generation, worker);
        void this.#useBlock(order.generation, order.workers);
        return;
      case 'close-generation': {
        const text = `generation ${order.generation} is over: ${order.why}.`;
        this.#store.closePrefix(
          generationPrefix(order.generation),
          new HorovodError('ERR_HVD_PEER_LOST', text),
        );
        return;
      }
      case 'notice':
        // The ranks of one host are enough: all ranks ask each other at their commits.
        this.#isNoticed = true;
        this.#block?.setNotice();
        return;
      case 'reset':
        this.#say(`${this.#survived.add(order)}.`);
        return;
      case 'too-few':
        this.#say(`${order.available} of at least ${order.min} ranks are left: waiting for more.`);
        return;
      case 'over':
        this.stop();
        return;
      case 'fail':
        this.#say([`the job has failed: ${order.message}`, ...this.#survived.before()].join('\n'));
        return;
      case 'finish': {
        const summary = this.#survived.summary();
        if (summary !== undefined) this.#say(summary);
        return;
      }
      case 'start':
        return;
      default:
        order satisfies never;
    }
  }

  /** A process of this host is killed, and its connection ends with it. One of another host is told when it asks. */
  #giveUp(worker: number, why: string): void {
    const comer = this.#comers.get(worker);
    if (comer === undefined) return;
    if (comer.host === this.#ownHost && comer.pid !== process.pid) {
      try {
        process.kill(comer.pid, 'SIGKILL');
        return;
      } catch {
        // It has ended, or runs in another container.
      }
    }
    const event = { worker, how: `was given up: ${why}`, exitCode: 1, isLost: true } as const;
    this.#tell({ kind: 'ended', ...event });
  }

  #answer(worker: number, count: number, assignment: Assignment): void {
    void this.#store.set(assignmentKey(worker, count), encodeAssignment(assignment)).catch(() => undefined);
  }

  async #awaitReports(worker: number): Promise<void> {
    for (let count = 1; ; count++) {
      try {
        const ready = decodeReady(await this.#store.get(readyKey(worker, count), { from: worker }));
        if (this.#state.workers.has(worker)) this.#tell({ kind: 'ready', worker, count, ready });
        else this.#answer(worker, count, { kind: 'removed', why: 'the others have gone on without it' });
      } catch {
        return; // It has ended, or is no worker.
      }
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

  /** That of this host: its lowest rank makes it. */
  async #useBlock(generation: number, workers: readonly number[]): Promise<void> {
    this.#block?.close();
    this.#block = undefined;
    this.#isNoticed = false;
    const leader = workers.findIndex((worker) => this.#comers.get(worker)?.host === this.#ownHost);
    const key = `${generationPrefix(generation)}${controlBlockKey(1, leader)}`;
    try {
      const block = ControlBlock.open(await this.#store.get(key, { from: workers[leader] }));
      if (this.#isStopped || this.#state.generation?.number !== generation) {
        block.close();
        return;
      }
      this.#block = block;
    } catch {
      return; // The generation is over.
    }
    if (this.#isNoticed) this.#block.setNotice();
    this.#lastNews = '';
    this.#tellNews();
  }

  /** For `horovod status`. */
  #tellNews(): void {
    if (this.#block === undefined) return;
    const news = { ...this.#survived.news(this.#state), pid: process.pid };
    const text = JSON.stringify(news);
    if (text === this.#lastNews) return;
    this.#lastNews = text;
    this.#block.writeNews(++this.#newsWritten, encodeJobNews(news, controlLayout.statusBytes));
  }
}
