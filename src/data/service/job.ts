// A job on a dispatcher: its consumers, the workers that have prepared it, and its ledger. Nothing is decided here: events of members go
// into the ledger with the number of whoever sent them, and what the ledger answers goes out.

import { HorovodError } from '../../errors.ts';
import { plainError } from '../execute/thread-messages.ts';
import { firstDifference } from './job-plan.ts';
import type { Layout } from './layout.ts';
import { openLedger, reduce } from './ledger.ts';
import type { LedgerEvent, LedgerMessage, LedgerOptions, LedgerState } from './ledger-state.ts';
import type { Link } from './link.ts';
import { idsOf, type JobRequest, type Message, type WireReport, type WorkerPlace } from './messages.ts';
import { countOf } from './ranges.ts';

/** A worker that is connected. */
export interface WorkerMember {
  readonly place: WorkerPlace;
  readonly link: Link;
}

export interface JobOptions {
  /** Unique among the incarnations of the dispatcher. */
  readonly id: string;
  readonly request: JobRequest;
  readonly incarnation: number;
  /** How many workers there are to be. */
  readonly workersExpected: number;
  readonly workers: ReadonlyMap<number, WorkerMember>;
  /** Nothing of it is needed any more. */
  readonly onOver: () => void;
  readonly forgetAfterMs?: number | undefined;
}

interface Prepared {
  readonly layout: Layout;
  readonly lengths: readonly (number | null)[];
  readonly index: readonly string[];
  readonly by: WorkerPlace;
}

interface Consumer {
  readonly link: Link;
  report: WireReport | null;
  /** How much of its time its loop waits for data; null: unknown. */
  starved: number | null;
}

/** What is shown of a job. */
export interface JobFigures {
  readonly name: string;
  readonly epoch: number;
  /** Batches of the epoch that were taken. */
  readonly done: number;
  /** Of an epoch; null: nobody knows yet. */
  readonly batches: number | null;
  /** Of each consumer that is there: how much of its time its loop waits; null: unknown. */
  readonly starved: readonly (number | null)[];
}

type Event = Exclude<LedgerEvent, { kind: 'worker-lost' | 'consumer' | 'report' }>;

/** Batches that a worker makes before it asks again. */
const leaseBatches = 4;
const defaultForgetAfterMs = 300_000;

export class Job {
  readonly #options: JobOptions;
  readonly #consumers = new Map<number, Consumer>();
  /** Workers that were asked, and those that may get leases. */
  readonly #asked = new Set<number>();
  readonly #ready = new Set<number>();
  #prepared: Prepared | undefined;
  #ledger: LedgerState | undefined;
  /** Events of workers that came before the ledger was open. */
  readonly #early: { readonly worker: number; readonly event: Event }[] = [];
  #isOver = false;
  #hasLost = false;
  #forgetting: NodeJS.Timeout | undefined;
  #lastLoss = '';

  constructor(options: JobOptions) {
    this.#options = options;
    this.#askWorkers();
  }

  get id(): string {
    return this.#options.id;
  }

  get request(): JobRequest {
    return this.#options.request;
  }

  /** Somebody is connected. */
  get isWatched(): boolean {
    return this.#consumers.size > 0;
  }

  /** For status pages. */
  describe(): JobFigures {
    const { request } = this.#options;
    const ledger = this.#ledger;
    const groups = ledger?.groups.slice(0, -1) ?? [];
    const lengths = groups.map(({ length }) => length);
    const isKnown = lengths.every((length) => length !== null);
    return {
      name: request.name,
      epoch: ledger?.epoch ?? 0,
      done: groups.reduce((sum, { taken }) => sum + countOf(taken), 0),
      batches: isKnown ? lengths.reduce((sum: number, length) => sum + (length ?? 0), 0) : null,
      starved: [...this.#consumers].sort(([a], [b]) => a - b).map(([, { starved }]) => starved),
    };
  }

  /** A consumer has connected. Throws where it wants something else than the others. */
  open(consumer: number, request: JobRequest, report: WireReport | null, link: Link): void {
    this.#checkRequest(consumer, request);
    clearTimeout(this.#forgetting);
    const before = this.#consumers.get(consumer);
    if (before !== undefined) {
      before.link.close();
      this.#apply({ kind: 'consumer', consumer, isHere: false });
    }
    this.#consumers.set(consumer, { link, report, starved: null });
    this.sendWorkers();
    if (this.#ledger !== undefined) this.#greet(consumer);
    else this.#openLedger();
  }

  consumerLost(consumer: number, link: Link, isLeaving: boolean): void {
    if (this.#consumers.get(consumer)?.link !== link) return;
    this.#consumers.delete(consumer);
    if (!isLeaving) this.#hasLost = true;
    this.#apply({ kind: 'consumer', consumer, isHere: false });
    if (this.#consumers.size > 0 || this.#isOver) return;
    if (!this.#hasLost) {
      this.end();
      return;
    }
    this.#forgetting = setTimeout(
      () => this.end(),
      this.#options.forgetAfterMs ?? defaultForgetAfterMs,
    ).unref();
  }

  consumerEvent(consumer: number, event: Event): void {
    this.#apply({ ...event, consumer } as LedgerEvent);
  }

  consumerStarved(consumer: number, share: number | null): void {
    const found = this.#consumers.get(consumer);
    if (found !== undefined) found.starved = share;
  }

  workerCame(): void {
    this.#askWorkers();
    this.sendWorkers();
  }

  workerLost(worker: number, reason: string): void {
    this.#lastLoss = reason;
    this.#asked.delete(worker);
    if (this.#ready.delete(worker)) this.#apply({ kind: 'worker-lost', worker });
    this.#askWorkers();
    this.sendWorkers();
  }

  workerEvent(worker: number, event: Event): void {
    if (this.#ledger === undefined) this.#early.push({ worker, event });
    else if (this.#ready.has(worker)) this.#apply({ ...event, worker } as LedgerEvent);
  }

  workerPrepared(worker: number, { layout, lengths, index }: Omit<Prepared, 'by'>): void {
    const member = this.#options.workers.get(worker);
    if (member === undefined || this.#isOver) return;
    const by = member.place;
    const first = this.#prepared;
    if (first === undefined) {
      const problem = this.#problemOf(lengths);
      if (problem !== undefined) {
        this.fail(problem);
        return;
      }
      this.#prepared = { layout, lengths, index, by };
      this.#ready.add(worker);
      this.#askWorkers();
      this.#openLedger();
      return;
    }
    const isSame =
      JSON.stringify([lengths, index, layout]) === JSON.stringify([first.lengths, first.index, first.layout]);
    if (!isSame) {
      this.fail(
        new HorovodError(
          'ERR_HVD_DATA_FILE',
          `data service: the files of the job are not the same on ${nameOf(first.by)} and ${nameOf(by)}. All compute workers read one set of files, from a file system that they share or from equal copies.`,
        ),
      );
      return;
    }
    this.#ready.add(worker);
  }

  /** It ends for all of its consumers. */
  fail(error: HorovodError): void {
    this.#toConsumers({ kind: 'failed', job: this.id, error: plainError(error) });
    this.end();
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#forgetting);
    for (const worker of this.#asked)
      this.#options.workers.get(worker)?.link.send({ kind: 'forget', job: this.id });
    this.#options.onOver();
  }

  /** Tells consumers whom to connect to. */
  sendWorkers(): void {
    const workers = [...this.#options.workers.values()].map(({ place }) => place);
    this.#toConsumers({ kind: 'workers', workers, lastLoss: this.#lastLoss });
  }

  #checkRequest(consumer: number, request: JobRequest): void {
    const own = this.#options.request;
    const what = `data service: consumer ${consumer} of the job "${own.name}"`;
    const mismatch = (reason: string) =>
      new HorovodError(
        'ERR_HVD_MISMATCH',
        `${what} asks for something else than those before it: ${reason}. Consumers of one job have one pipeline; give another pipeline another jobName.`,
      );
    const difference = firstDifference(own.plan, request.plan);
    if (difference !== undefined) throw mismatch(difference);
    for (const name of ['uneven', 'isRoundRobin', 'isParallel'] as const)
      if (own[name] !== request[name]) throw mismatch(`${name} is ${request[name]} and was ${own[name]}`);
    const isElastic = this.#ledger !== undefined && request.consumers !== own.consumers;
    if (!isElastic && request.consumers !== own.consumers)
      throw mismatch(`there are ${request.consumers} consumers and were ${own.consumers}`);
    if (consumer >= request.consumers)
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        `${what}: there are ${request.consumers} consumers, numbered from 0.`,
      );
  }

  #problemOf(lengths: readonly (number | null)[]): HorovodError | undefined {
    const { consumers, isRoundRobin, name } = this.#options.request;
    const isCounted = lengths.every((length) => length !== null);
    const invalid = (reason: string) =>
      new HorovodError('ERR_HVD_INVALID_ARGUMENT', `data service: the job "${name}" ${reason}.`);
    if (!isCounted && isRoundRobin)
      return invalid(
        'is dealt round robin, which needs to know how many batches there are: leave filter(), flatMap(), bucketByLength() and sources without an index out, or roundRobin',
      );
    const batches = lengths.reduce((sum: number, length) => sum + (length ?? 0), 0);
    if (isCounted && batches < consumers)
      return invalid(
        `has ${batches} batches in an epoch, and ${consumers} consumers need one each. Make the batches smaller, or take fewer trainers`,
      );
    return undefined;
  }

  /** One worker looks at the files first, and keeps what it finds; then the others do. */
  #askWorkers(): void {
    if (this.#isOver) return;
    const { workers, request, workersExpected } = this.#options;
    for (const [worker, { link }] of workers) {
      if (this.#asked.has(worker)) continue;
      if (this.#prepared === undefined && this.#asked.size > 0) return;
      this.#asked.add(worker);
      link.send({
        kind: 'prepare',
        job: this.id,
        plan: request.plan,
        layout: this.#prepared?.layout ?? request.layout,
        isParallel: request.isParallel,
        workers: workersExpected,
      });
    }
  }

  /** Behind a lost dispatcher, all consumers say first what they have. */
  #openLedger(): void {
    const prepared = this.#prepared;
    if (prepared === undefined || this.#ledger !== undefined || this.#isOver) return;
    const { incarnation, request } = this.#options;
    const reports = [...this.#consumers.values()].filter(({ report }) => report !== null);
    if (incarnation > 1 && this.#consumers.size < request.consumers) return;
    const options: LedgerOptions = {
      consumers: request.consumers,
      lengths: prepared.lengths,
      uneven: request.uneven,
      isRoundRobin: request.isRoundRobin,
      leaseBatches,
      depth: request.depth,
    };
    this.#ledger = openLedger(options, null, reports.length > 0 ? incarnation : 1);
    for (const consumer of this.#consumers.keys()) this.#greet(consumer);
    for (const { worker, event } of this.#early.splice(0)) this.workerEvent(worker, event);
  }

  #greet(consumer: number): void {
    const member = this.#consumers.get(consumer);
    const { layout, lengths, index } = this.#prepared as Prepared;
    const { era, cut } = this.#ledger as LedgerState;
    const { id, incarnation } = this.#options;
    member?.link.send({ kind: 'opened', job: id, incarnation, layout, lengths, index, era, cut });
    this.#apply({ kind: 'consumer', consumer, isHere: true });
    const report = member?.report;
    if (report === null || report === undefined) return;
    const taken = idsOf(report.epoch, report.taken);
    const granted = idsOf(report.epoch, report.granted);
    this.#apply({ ...report, kind: 'report', consumer, granted, taken });
    this.#apply({ kind: 'taken', consumer, era: report.era, ids: taken });
  }

  #apply(event: LedgerEvent): void {
    if (this.#ledger === undefined || this.#isOver) return;
    const [state, messages] = reduce(this.#ledger, event);
    this.#ledger = state;
    for (const message of messages) this.#post(message);
  }

  #post(message: LedgerMessage): void {
    if ('worker' in message)
      this.#options.workers.get(message.worker)?.link.send({ kind: 'order', job: this.id, message });
    else this.#consumers.get(message.consumer)?.link.send({ kind: 'answer', message });
  }

  #toConsumers(message: Message): void {
    for (const { link } of this.#consumers.values()) link.send(message);
  }
}

export function nameOf({ number, host, pid }: Pick<WorkerPlace, 'number' | 'host' | 'pid'>): string {
  return `compute worker ${number} on ${host} (pid ${pid})`;
}
