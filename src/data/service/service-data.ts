// The data of a dataset that comes from a data service: what sendToDataService() and distribute() put in the place of files and threads.
// Calls before it run on compute workers; calls after it run here, on what has arrived. A batch counts as taken when the training loop
// takes what was made of it.

import { HorovodError } from '../../errors.ts';
import type { DataWatch } from '../../observe/status/data-watch.ts';
import { invalid } from '../../operations/check-options.ts';
import { driveAsync, driveSync, type Steps } from '../execute/maybe-async.ts';
import type { Meter } from '../execute/metrics.ts';
import type { Run } from '../execute/run.ts';
import { isRecord, isTensor } from '../execute/stack.ts';
import { type DataState, isServicePlace } from '../order/state.ts';
import { fingerprintOfPlan } from '../plan/fingerprint.ts';
import type { ElementFunction } from '../plan/function-reference.ts';
import type { PlanNode, SourceNode } from '../plan/nodes.ts';
import { normalise } from '../plan/normalise.ts';
import type { ConsumerHost } from './consumer-host.ts';
import { jobPlanOf } from './job-plan.ts';
import type { Layout } from './layout.ts';
import type { Cut } from './ledger-state.ts';
import type { JobRequest } from './messages.ts';
import { countOf, including, type Ranges } from './ranges.ts';
import { quotaFor } from './rounds.ts';
import { epochEnd, type OpenedJob, ServiceSession, type TakenRanges } from './service-session.ts';
import { type Arrived, boundary, TrainerStages } from './trainer-stages.ts';
import { WaitTeller } from './trainer-waits.ts';

/** How a dataset gets its batches. */
export interface ServiceRequest {
  /** The call, for errors: 'sendToDataService()'. */
  readonly call: string;
  /** This trainer among those of the job; asked again in each generation. */
  readonly place: () => { readonly rank: number; readonly size: number };
  /** Shared by all trainers; undefined: each has a job of its own. */
  readonly jobName: string | undefined;
  /** Of the training run. */
  readonly run: string;
  readonly isRoundRobin: boolean;
  readonly isParallel: boolean;
  readonly silenceMs: number;
  /** Grows with each membership of an elastic job. */
  readonly generation: () => number;
  /** Batches ahead, where the dataset does not say. */
  readonly depth: number;
  /** Of this rank; it gives nothing in a process that is in no job. */
  readonly watch?: (() => DataWatch | undefined) | undefined;
  /** For the log of this rank. */
  readonly warn?: ((text: string) => void) | undefined;
  readonly openHost: (request: JobRequest, consumer: number) => ConsumerHost;
  /** Collective: what all trainers give. */
  readonly gather: (own: TrainerProgress) => readonly TrainerProgress[];
}

export interface TrainerProgress {
  readonly epoch: number;
  readonly base: Cut | undefined;
  readonly taken: TakenRanges;
  readonly layout: Layout | undefined;
}

/** A place of the training, for elastic states. */
export interface ServicePlace {
  readonly layout: Layout;
  readonly cut: Cut;
}

export interface ServiceDataOptions {
  /** The calls before. */
  readonly nodes: readonly PlanNode[];
  /** The calls after. */
  readonly after: readonly PlanNode[];
  readonly functions: readonly ElementFunction[];
  readonly request: ServiceRequest;
  readonly meter: Meter;
}

/** For a rank that waits long. */
const advice =
  'it comes from a data service, which is slower than the training. `horovod status` with the config of the service shows what its workers do: start more of them (horovod compute-worker … --join), or make the busiest stage faster.';

const attemptsPerGeneration = 2 ** 20;

export class ServiceData {
  readonly #options: ServiceDataOptions;
  #session: ServiceSession | undefined;
  /** What the session was opened for. */
  #openedFor = '';
  #opened: OpenedJob | undefined;
  /** Where the next session begins. */
  #place: ServicePlace | undefined;
  /** Of a state, and not compared with the files yet. */
  #index: readonly string[] | undefined;
  #generation = -1;
  #attempts = 0;
  /** Epochs of which the last batch has come, and whose end was told to the loop before the dispatcher has told it. */
  #lastOf = -1;
  #owedEnd = -1;
  /** After a commit: what all trainers had taken. */
  #agreed: ServicePlace | undefined;

  constructor(options: ServiceDataOptions) {
    this.#options = options;
  }

  /** Batches of an epoch of this trainer, once the job is open. */
  get size(): number | null {
    const { nodes } = this.#options;
    const quota = this.#quota(undefined);
    if (quota === null) return null;
    const { epochs } = normalise(nodes);
    return new TrainerStages(this.#options).sizeOf(quota * epochs);
  }

  async open(): Promise<Run> {
    const session = this.#ready();
    this.#opened = await driveAsync(session.open(false));
    this.#checkIndex(this.#opened);
    const { request, meter, nodes } = this.#options;
    const plan = normalise(nodes);
    const { size } = request.place();
    const consumers = request.jobName === undefined ? 1 : size;
    const stages = await TrainerStages.load(this.#options);
    const quota = () => this.#quota(session.progress?.base);
    const uneven = plan.source.settings.uneven;
    if (stages.isBatched && this.#quota(undefined) === null)
      throw invalid(
        'batch()',
        `call it before ${request.call}: how many elements there are is not known here, so it could wait for more than come`,
      );
    const teller = new WaitTeller(meter, (waits) => session.tell(waits));
    let isOver = false;
    /** A batch may be held until its epoch ends, which the dispatcher says only when all are taken: so they are counted, too. */
    const pull = function* (
      this: ServiceData,
      isSync: boolean,
    ): Steps<Arrived | typeof boundary | undefined> {
      if (isOver) return undefined;
      for (;;) {
        if (this.#lastOf === session.epoch) {
          isOver = (session.epoch + 1) % plan.epochs === 0;
          this.#lastOf = -1;
          this.#owedEnd = session.epoch;
          return boundary;
        }
        if (!session.isReady) teller.waits(performance.now());
        const next = yield* session.next(isSync);
        if (next === epochEnd) {
          if (this.#owedEnd === session.epoch - 1) continue;
          isOver = session.epoch % plan.epochs === 0;
          return boundary;
        }
        const { id, value, count, isRepeat, isEmpty } = next;
        if (count === quota()) this.#lastOf = id.epoch;
        if (isEmpty) {
          session.taken(id);
          continue;
        }
        const weight = isRepeat && uneven === 'exact' ? 0 : 1;
        return { value, ids: [id], place: id, weight, count };
      }
    }.bind(this);
    const take = function* (isSync: boolean): Steps<ReturnType<typeof handOut> | undefined> {
      meter.waits(performance.now());
      const arrived = yield* stages.next(
        () => pull(isSync),
        (id) => session.taken(id),
      );
      meter.ahead = session.ahead;
      const now = performance.now();
      if (arrived === undefined) meter.rests();
      else meter.waited(now);
      teller.goesOn(now);
      return arrived === undefined ? undefined : handOut(arrived);
    };
    const endWatch = meter.begin(request.watch?.(), advice);
    const isBatched = plan.batch !== undefined || stages.isBatched;
    const handOut = ({ value, ids, weight, count, place }: Arrived) => {
      for (const id of ids) session.taken(id);
      this.#agreed = undefined;
      const { samples, bytes } = sizeOf(value, isBatched);
      meter.took(samples, bytes);
      const globalSize = samples * consumers;
      const info = isBatched
        ? { epoch: place.epoch, position: count * globalSize, weight, globalSize }
        : undefined;
      return { value, position: 0, info };
    };
    return {
      iteration: {
        takeReady: () => undefined,
        next: () => driveAsync(take(false)),
        nextSync: () => driveSync(take(true)),
      },
      // Batches that have arrived are for the next iterator.
      feed: { close: async () => endWatch() },
      // A function, or a batch that is being put together, may have kept one.
      release: (batch) => {
        if (stages.passesOn) session.release(batch);
      },
    };
  }

  /** Collective. */
  async state(): Promise<DataState> {
    const { nodes, request } = this.#options;
    const session = this.#ready();
    const { layout, index } = await driveAsync(session.open(false));
    const own = await session.cut(driveAsync);
    const isShared = request.jobName !== undefined;
    const all = isShared ? [] : request.gather({ epoch: own.epoch, base: own, taken: {}, layout });
    const cuts = all.flatMap(({ base }) => base ?? []);
    const cut = cuts[0] ?? own;
    return {
      v: 1,
      plan: fingerprintOfPlan(nodes),
      index,
      seed: normalise(nodes).seed,
      lanes: layout.lanes,
      epoch: cut.epoch,
      position: 0,
      service: { layout, done: cut.done, ...(cuts.length > 1 ? { ranks: cuts } : {}) },
    };
  }

  /** Call it on all trainers. */
  restore(state: DataState): void {
    const { service, epoch, index } = state;
    if (!isServicePlace(service))
      throw new HorovodError(
        'ERR_HVD_DATA_STATE',
        'restore(): the state is of the same pipeline without a data service, or is damaged.',
      );
    const { rank, size } = this.#options.request.place();
    const { layout, done, ranks } = service;
    const isShared = this.#options.request.jobName !== undefined;
    if (isShared ? ranks !== undefined : ranks !== undefined && ranks.length !== size)
      throw new HorovodError(
        'ERR_HVD_DATA_STATE',
        `restore(): the state is of ${ranks?.length} trainers that each went through the data; ${isShared ? 'now they share it' : `now there are ${size}`}. With reuseDataset: true a state is valid for any number of trainers.`,
      );
    this.#index = index;
    this.resumeAt({ layout, cut: ranks?.[rank] ?? { epoch, done } });
  }

  resumeAt(place: ServicePlace | undefined): void {
    this.#place = place;
    this.#lastOf = -1;
    this.#owedEnd = -1;
    this.#agreed = undefined;
    const session = this.#session;
    if (session === undefined || place === undefined) return;
    if (this.#openedFor === this.#audience()) this.#restoreIn(session, place);
    else this.#endSession();
  }

  /** Not collective; behind agree(), the same on all trainers. */
  place(): ServicePlace | undefined {
    const { jobName, place } = this.#options.request;
    if (jobName === undefined && place().size > 1)
      throw new HorovodError(
        'ERR_HVD_UNSUPPORTED',
        'a dataset of an elastic state that comes from a data service needs reuseDataset: true: a trainer that is added has no part in the data of another one.',
      );
    if (this.#agreed !== undefined) return this.#agreed;
    return this.#placeOf([this.#progress()]) ?? this.#place;
  }

  /** Collective: all tell each other what they have taken, so that nobody has to ask the dispatcher, nor a trainer that is lost. */
  agree(): void {
    const own = this.#progress();
    const all = this.#options.request.jobName === undefined ? [own] : this.#options.request.gather(own);
    this.#agreed = this.#placeOf(all);
  }

  #progress(): TrainerProgress {
    const { base, taken = {}, epoch = 0 } = this.#session?.progress ?? {};
    return { base, taken, epoch, layout: this.#opened?.layout };
  }

  #placeOf(all: readonly TrainerProgress[]): ServicePlace | undefined {
    const known = all.find(({ base, layout }) => base !== undefined && layout !== undefined);
    if (known?.base === undefined || known.layout === undefined) return undefined;
    const epoch = Math.min(...all.map((each) => each.epoch));
    const done: Ranges[] = known.base.done.map((ranges) => (epoch === known.base?.epoch ? ranges : []));
    for (const { taken } of all)
      for (const [group, ranges] of (taken[epoch] ?? []).entries()) {
        // Repeats are no part of a cut.
        if (group >= done.length || ranges === undefined || ranges === null) continue;
        for (const [from, to] of ranges)
          for (let ordinal = from; ordinal < to; ordinal++)
            done[group] = including(done[group] as Ranges, ordinal);
      }
    return { layout: known.layout, cut: { epoch, done } };
  }

  #audience(): string {
    const { rank, size } = this.#options.request.place();
    return `${rank} of ${size}`;
  }

  #ready(): ServiceSession {
    const { nodes, after, request } = this.#options;
    const audience = this.#audience();
    if (this.#session !== undefined && this.#openedFor !== audience) this.#endSession();
    if (this.#session !== undefined) return this.#session;
    const { rank, size } = request.place();
    const isShared = request.jobName !== undefined;
    const { settings } = nodes[0] as SourceNode;
    const prefetch = normalise(nodes).prefetch;
    const wanted = after.findLast(({ node }) => node === 'prefetch') as
      | { batches: number | 'auto' }
      | undefined;
    const ahead = wanted?.batches ?? prefetch;
    const job: JobRequest = {
      name: request.jobName ?? `rank ${rank}`,
      run: request.run,
      // Trainers with jobs of their own go through the data in different orders.
      plan: jobPlanOf(nodes, isShared ? 0 : rank),
      consumers: isShared ? size : 1,
      uneven: settings.uneven,
      isRoundRobin: request.isRoundRobin,
      isParallel: request.isParallel,
      depth: Math.max(ahead === 'auto' ? request.depth : ahead, new TrainerStages(this.#options).needs + 1),
      layout: this.#place?.layout ?? null,
    };
    const host = request.openHost(job, isShared ? rank : 0);
    const session = new ServiceSession(host, request.silenceMs, request.warn);
    this.#session = session;
    this.#openedFor = audience;
    if (this.#place !== undefined) this.#restoreIn(session, this.#place);
    return session;
  }

  #restoreIn(session: ServiceSession, { cut }: ServicePlace): void {
    const { request } = this.#options;
    const generation = request.generation();
    if (generation !== this.#generation) this.#attempts = 0;
    this.#generation = generation;
    this.#attempts += 1;
    const consumers = request.jobName === undefined ? 1 : request.place().size;
    session.restore(generation * attemptsPerGeneration + this.#attempts, consumers, cut);
  }

  #endSession(): void {
    void this.#session?.close().catch(() => {});
    this.#session = undefined;
  }

  /** Batches of this trainer in an epoch; null: nobody knows, or it depends on who comes first. */
  #quota(base: Cut | undefined): number | null {
    const { nodes, request } = this.#options;
    const lengths = this.#opened?.lengths;
    if (lengths === undefined) return null;
    let left = 0;
    for (const [group, length] of lengths.entries()) {
      if (length === null) return null;
      const isSame = base !== undefined && base.epoch === this.#session?.epoch;
      left += length - (isSame ? countOf(base.done[group] ?? []) : 0);
    }
    const { uneven } = (nodes[0] as SourceNode).settings;
    const consumers = request.jobName === undefined ? 1 : request.place().size;
    const quota = quotaFor(left, consumers, uneven);
    return quota.full === consumers ? quota.perConsumer : null;
  }

  #checkIndex({ index }: OpenedJob): void {
    const before = this.#index;
    if (before === undefined) return;
    this.#index = undefined;
    const place = Math.max(before.length, index.length);
    for (let at = 0; at < place; at++) {
      if (before[at] === index[at]) continue;
      throw new HorovodError(
        'ERR_HVD_DATA_STATE',
        `restore(): ${before.length === index.length ? `file ${at + 1} of the pipeline is not what it was` : 'the pipeline has other files than it had'}. A state belongs to one pipeline over one set of files. Restore it there, or start anew without it.`,
      );
    }
  }
}

/** Which calls may follow. */
export function checkAfterService(node: PlanNode, call: string): void {
  if (['map', 'filter', 'batch', 'paddedBatch', 'take', 'prefetch'].includes(node.node)) return;
  throw invalid(
    `${node.node}()`,
    `call it before ${call}: compute workers do it. Only map(), filter(), batch(), take() and prefetch() may follow`,
  );
}

function sizeOf(value: unknown, isBatched: boolean): { samples: number; bytes: number } {
  const columns = isTensor(value) ? [value] : isRecord(value) ? Object.values(value) : [];
  let [samples, bytes] = [1, 0];
  for (const column of columns) {
    if (isTensor(column)) {
      if (isBatched) samples = column.shape[0] ?? 1;
      bytes += column.data.byteLength;
    } else if (Array.isArray(column) && isBatched) samples = column.length;
  }
  return { samples, bytes };
}
