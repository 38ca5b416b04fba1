// A context: one rank's membership, its process sets and its way to every collective. The functions of the
// package are a façade over one default context (default-context.ts); tests make several in one process.

import { hostname } from 'node:os';
import type { Log } from '../console/log.ts';
import { Tuned } from '../engine/autotune/tuned.ts';
import { Channel } from '../engine/channel.ts';
import type { ChannelHost } from '../engine/channel-host.ts';
import { nowMs } from '../engine/clock.ts';
import { labelOf } from '../engine/description.ts';
import { ObservedOperation, Observers, waitingPeriodMs } from '../engine/observer.ts';
import type { Request } from '../engine/request.ts';
import { StepClock } from '../engine/step-clock.ts';
import { fromCaller, HorovodError } from '../errors.ts';
import type { CollectiveRecord } from '../observe/flight-recorder/flight-recorder.ts';
import type { ObservedRank } from '../observe/observed-rank.ts';
import type { StatusWriter } from '../observe/status/status-writer.ts';
import { CompiledCalls } from '../operations/compiled/compiled-calls.ts';
import type { CompiledRunner, SlowOperation } from '../operations/compiled/slow-way.ts';
import { type AllreduceOptions, type CollectiveOptions, checkOptions } from '../operations/options.ts';
import type { Members, Plan } from '../operations/plan.ts';
import { type PreparedCollective, prepareAllreduceSync } from '../operations/prepared.ts';
import { notRegistered, type ProcessSet } from '../operations/process-set.ts';
import type { TensorLike } from '../tensor/tensor.ts';
import {
  type GrowingMemory,
  type Transport,
  type TransportGroup,
  type TransportName,
  transportText,
} from '../transport/transport.ts';
import { closedError, shutDownError, staleError } from './closed-errors.ts';
import type { ContextLimits, ContextParts, CreateOptions, World } from './context-parts.ts';
import { GradientSettings } from './gradient-settings.ts';
import { ProcessSetChanges } from './membership/process-set-changes.ts';
import { ProcessSetTable, type RegisteredSet } from './membership/process-set-table.ts';
import { type ContextObservers, createObservers } from './observers.ts';
import { exchangeOptional, exchangeOptionalSync } from './optional-exchange.ts';
import { abortedError, abortOn, requestOf, zeroRequest } from './requests.ts';
import { asStartFailure, eitherOf } from './start/start-watch.ts';

export type { ContextLimits, ContextParts, World } from './context-parts.ts';

export class HorovodContext implements CompiledRunner {
  readonly world: World;
  readonly transport: Transport;
  readonly log: Log;
  readonly limits: ContextLimits;
  /** The limits that may change at the end of a step. */
  readonly tuned: Tuned;
  /** Those of them that adapters use. */
  readonly gradients: GradientSettings;
  /** Training steps of this rank. */
  readonly steps: StepClock;
  readonly calls: CompiledCalls = new CompiledCalls(this);
  readonly #parts: ContextParts;
  readonly #sets: ProcessSetTable;
  readonly #changes: ProcessSetChanges;
  readonly #observers: Observers;
  readonly #watching: ContextObservers;
  readonly #forgetSteps: () => void;
  #failure: HorovodError | undefined;
  /** Why it is closed; undefined: it is open. */
  #closure: HorovodError | undefined;
  #hasWarnedUneven = false;

  private constructor(parts: ContextParts) {
    this.#parts = parts;
    this.world = parts.world;
    this.transport = parts.transport;
    this.log = parts.log;
    this.limits = parts.limits;
    this.steps = parts.steps ?? new StepClock();
    this.tuned = new Tuned(parts.limits);
    this.gradients = new GradientSettings(this.tuned, parts.transport);
    this.#sets = new ProcessSetTable(parts.world.rank, parts.hostOf, parts.transport.kernels);
    this.#changes = new ProcessSetChanges({
      parts,
      sets: this.#sets,
      run: (plan, options, what, key) => this.run(plan, options, what, key),
      addSet: (set, ranks, group) => this.#addSet(set, ranks, group),
    });
    this.#observers = new Observers(parts.log);
    this.#watching = createObservers(this.#asObserved(), parts);
    this.#observers.attach(...this.#watching.all);
    this.#forgetSteps = this.steps.subscribe((mark) => this.#observers.step(mark));
  }

  #asObserved(): ObservedRank {
    const { world, transport, log, status, pidOf } = this.#parts;
    return {
      rank: world.rank,
      size: world.size,
      host: status?.host ?? hostname(),
      job: status?.job ?? 'alone',
      transport: transportText(transport),
      log,
      steps: this.steps,
      processSets: () =>
        this.#sets.all().map(({ id, members, channel }) => ({ id, ranks: members.ranks, channel })),
      pidOf: (rank) => pidOf?.(rank),
      fail: (error) => this.fail(error),
    };
  }

  /** Collective over all ranks. Takes over `parts`: they are closed if it fails. */
  static async create(parts: ContextParts, options: CreateOptions = {}): Promise<HorovodContext> {
    const context = new HorovodContext(parts);
    const { world } = parts;
    try {
      const ranks = Array.from({ length: world.size }, (_, rank) => rank);
      const timeoutMs = options.timeoutMs ?? parts.limits.startTimeoutMs;
      const { exchange, members, startSignal } = parts;
      const openGroup = parts.openGroup ?? parts.transport.openGroup.bind(parts.transport);
      const group = await openGroup({
        id: 0,
        members,
        index: world.rank,
        exchange,
        signal: eitherOf(options.signal, startSignal),
        timeoutMs,
      });
      context.#addSet(parts.processSet, ranks, group);
      await context.#changes.addFirst(options.processSets ?? [], options);
      context.status.write();
      return context;
    } catch (error) {
      parts.failJob(asStartFailure(error, world.rank));
      context.close();
      throw error;
    }
  }

  alloc(bytes: number): ArrayBufferLike {
    return this.transport.alloc(bytes);
  }

  /** For benchmarks: from here on nobody watches what this rank does. */
  unwatch(): void {
    this.#observers.detachAll();
  }

  get transportName(): TransportName {
    return this.transport.name;
  }

  get hasDynamicProcessSets(): boolean {
    return this.#parts.hasDynamicProcessSets;
  }

  // What adapters use: see AdapterContext in adapters/context.ts.

  prepareAllreduceSync<T extends TensorLike | readonly TensorLike[]>(
    xs: T,
    options: AllreduceOptions,
  ): PreparedCollective<T> {
    return prepareAllreduceSync(this, xs, options);
  }

  adoptMemory(memory: GrowingMemory): void {
    this.transport.adopt(memory);
  }

  nextReducer(set: ProcessSet | undefined): number {
    return ++this.#registered(set, 'gradients').reducers;
  }

  reportStep(samples?: number): void {
    this.steps.report(samples);
  }

  get isElastic(): boolean {
    return this.#parts.worker !== undefined;
  }

  get checksDivergence(): boolean {
    return this.limits.divergenceCheck ?? true;
  }

  exchangeCheck(key: string, text: string, set?: ProcessSet): Promise<readonly string[] | undefined> {
    return exchangeOptional(this, 'check', key, text, set);
  }

  exchangeCheckSync(key: string, text: string, set?: ProcessSet): readonly string[] | undefined {
    return exchangeOptionalSync(this, 'check', key, text, set);
  }

  /** Everything still in flight ends with ERR_HVD_SHUT_DOWN. Calling it twice is fine. */
  close(): void {
    this.#close(shutDownError(this.world.rank));
  }

  /** Its generation of an elastic job is over, and the process goes on: whatever belongs to this context is stale. */
  retire(generation: number): void {
    this.#close(staleError(generation));
  }

  #close(error: HorovodError): void {
    if (this.#closure !== undefined) return;
    this.#closure = error;
    this.#failure ??= error;
    this.#forgetSteps();
    this.#observers.close();
    // Also after a failure, which the others have heard of before: whoever ends without a word counts as dead.
    this.#parts.leave();
    try {
      this.#sets.removeAll(error);
    } finally {
      this.transport.close();
      this.#parts.close();
    }
  }

  /** Whether the driver of an elastic job wants another membership. */
  get hasNotice(): boolean {
    return this.#parts.hasNotice?.() ?? false;
  }

  /** Nothing of this rank is in flight, in any process set. */
  get isIdle(): boolean {
    return this.#sets.channels().every((channel) => channel.isIdle);
  }

  flightRecord(): CollectiveRecord[] {
    return this.#watching.recorder.read();
  }

  /** What this rank says it does, and reads of others. */
  get status(): StatusWriter {
    return this.#watching.status;
  }

  /** Learns from pipelines of horovod/data how long training waits for them. */
  get data(): ContextObservers['data'] {
    return this.#watching.data;
  }

  /** Knows which rank the others wait for. */
  get stragglers(): ContextObservers['stragglers'] {
    return this.#watching.stragglers;
  }

  get timeline(): ContextObservers['timeline'] {
    return this.#watching.timeline;
  }

  /** The channel of a process set, if it is idle and well: the way to the quick paths. */
  quickChannel(set: ProcessSet | undefined): Channel | undefined {
    const channel = set === undefined ? this.#sets.globalChannel : this.#sets.find(set)?.channel;
    return channel?.isQuiet ? channel : undefined;
  }

  /** The members of a process set that this rank may use. */
  membersOf(set: ProcessSet | undefined, what: string): Members {
    return this.#registered(set, what).members;
  }

  /** Counts prepared collectives of a process set. */
  nextPrepared(set: ProcessSet | undefined, what: string): number {
    return ++this.#registered(set, what).prepared;
  }

  /** Undoes nextPrepared() for one that the others never counted. */
  returnPrepared(set: ProcessSet | undefined, what: string): void {
    this.#registered(set, what).prepared--;
  }

  run<R>(plan: Plan<R>, options: CollectiveOptions, what: string, name?: string): Promise<R> {
    const channel = this.#channelOf(options, what);
    const { signal } = options;
    if (signal?.aborted) throw abortedError(what, this.world.rank, signal);
    return new Promise((resolve, reject) => {
      let stopListening = () => {};
      const request = this.#requestOf(channel, plan, options, name, {
        resolve: () => {
          stopListening();
          resolve(this.#resultOf(plan, request));
        },
        reject: (error) => {
          stopListening();
          reject(error);
        },
      });
      this.#submit(channel, () => channel.submit(request), name ?? options.name);
      if (signal !== undefined) {
        stopListening = abortOn(signal, channel, request, {
          rank: this.world.rank,
          fail: (error) => this.fail(error),
        });
      }
    });
  }

  runSync<R>(plan: Plan<R>, options: CollectiveOptions, what: string, name?: string): R {
    const channel = this.#channelOf(options, what);
    if (options.signal?.aborted) throw abortedError(what, this.world.rank, options.signal);
    let failure: HorovodError | undefined;
    const request = this.#requestOf(channel, plan, options, name, {
      resolve() {},
      reject(error) {
        failure = error;
      },
    });
    this.#submit(channel, () => channel.runSync(request), name ?? options.name);
    if (failure !== undefined) throw fromCaller(failure);
    return this.#resultOf(plan, request);
  }

  /** Submits at once; the function returned waits, blocking, and gives the result. It must be called, once. */
  start<R>(plan: Plan<R>, options: CollectiveOptions, what: string, name?: string): () => R {
    const channel = this.#channelOf(options, what);
    let failure: HorovodError | undefined;
    const request = this.#requestOf(channel, plan, options, name, {
      resolve() {},
      reject(error) {
        failure = error;
      },
    });
    this.#submit(channel, () => channel.start(request), name ?? options.name);
    return () => {
      if (!request.isSettled) channel.waitSync(request);
      if (failure !== undefined) throw fromCaller(failure);
      return this.#resultOf(plan, request);
    };
  }

  /** For the quick paths. */
  requestFor<R>({ plan, options, key, sequence, ...ends }: SlowOperation<R>): Request {
    const channel = this.#registered(options.processSet, 'allreduce').channel as Channel;
    const request = this.#requestOf(channel, plan, options, key, ends);
    if (sequence === undefined) return request;
    request.operation = ObservedOperation.of(request.description, options.processSet?.id ?? 0);
    request.operation.sequence = sequence;
    request.operation.submittedAtMs = request.submittedAtMs;
    return request;
  }

  async addProcessSet(
    set: ProcessSet,
    options: { signal?: AbortSignal | undefined; timeoutMs?: number } = {},
  ): Promise<void> {
    this.#checkOpen('addProcessSet');
    if (!this.hasDynamicProcessSets) {
      throw new HorovodError(
        'ERR_HVD_PROCESS_SET',
        "process sets can be added after init() only with init({ processSets: 'dynamic' }) or HOROVOD_DYNAMIC_PROCESS_SETS=1.",
      );
    }
    try {
      await this.#changes.add(set, options);
    } catch (error) {
      throw fromCaller(error);
    }
  }

  /** False for a set that is not registered, and for the one of all ranks. */
  async removeProcessSet(set: ProcessSet, options: CollectiveOptions = {}): Promise<boolean> {
    this.#checkOpen('removeProcessSet');
    if (set.id === 0 || this.#sets.find(set) === undefined) return false;
    if (!this.hasDynamicProcessSets) {
      throw new HorovodError(
        'ERR_HVD_PROCESS_SET',
        "process sets can be removed only with init({ processSets: 'dynamic' }) or HOROVOD_DYNAMIC_PROCESS_SETS=1.",
      );
    }
    try {
      await this.#changes.remove(set, options);
    } catch (error) {
      throw fromCaller(error);
    }
    const text = `the process set of ranks ${set.ranks.join(', ')} has been removed.`;
    this.#sets.remove(set, new HorovodError('ERR_HVD_PROCESS_SET', text));
    return true;
  }

  /**
   * The job has failed: every channel here, every rank elsewhere. What is in flight ends when other ranks no longer write into
   * the memory of this one.
   */
  fail(cause: HorovodError): void {
    if (this.#failure !== undefined) return;
    this.#failure = cause;
    this.log.write('debug', `the job fails: ${cause}`, { topic: 'engine' });
    this.#parts.failJob(cause);
    const error = this.transport.fence?.(cause) ?? cause;
    this.#failure = error;
    this.#observers.failed(error);
    for (const channel of this.#sets.channels()) channel.fail(error);
  }

  #resultOf<R>(plan: Plan<R>, request: Request): R {
    // Without an exchange of lists there is nobody else who could have come later.
    return plan.kind === 'join' ? ((request.lastJoined ?? this.world.rank) as R) : plan.result();
  }

  #submit(channel: Channel, submit: () => void, name: string | undefined): void {
    try {
      submit();
    } catch (error) {
      if (name === undefined) channel.returnUnnamed();
      throw fromCaller(error);
    }
  }

  #addSet(set: ProcessSet, ranks: readonly number[], group: TransportGroup | undefined): void {
    const id = this.#sets.nextId;
    this.#observers.processSetAdded(id);
    this.log.write('debug', `process set ${id} of ${ranks.length} ranks`, { topic: 'engine' });
    this.#sets.add(set, ranks, group === undefined ? undefined : new Channel(group, this.#hostOf(id, ranks)));
  }

  #hostOf(processSet: number, ranks: readonly number[]): ChannelHost {
    const { fusionThresholdBytes } = this.limits;
    const { tuned } = this;
    const areAll = ranks.length === this.world.size;
    return {
      rank: this.world.rank,
      processSet,
      members: ranks,
      observers: this.#observers,
      // Others may be in the middle of something while the set of all ranks is idle and agrees on new settings.
      get fusionThresholdBytes() {
        return areAll ? tuned.fusionThresholdBytes : fusionThresholdBytes;
      },
      get cycleTimeMs() {
        return tuned.cycleTimeMs;
      },
      onGivenUp: (key) => tuned.onGivenUp?.(key),
      position: () => this.steps.position,
      onUneven: (text) => this.#warnUneven(text),
      onBatch: () => {
        tuned.hasBatches ||= areAll;
      },
      stallAfterMs: waitingPeriodMs,
      nowMs,
      fail: (error) => this.fail(error),
      zeroRequest: (description) => zeroRequest(description, ranks.length, this.limits.operationTimeoutMs),
    };
  }

  /** All ranks hear of it; one says it, once. */
  #warnUneven(text: string): void {
    if (this.#hasWarnedUneven) return;
    this.#hasWarnedUneven = true;
    const warning = `the ranks average gradients of different epochs. ${text}`;
    this.log.write(this.world.rank === 0 ? 'warning' : 'info', warning);
  }

  #registered(set: ProcessSet | undefined, what: string): RegisteredSet {
    this.#checkOpen(what);
    const registered = this.#sets.find(set);
    if (registered === undefined) throw notRegistered(set, what);
    if (registered.members.index < 0) {
      throw new HorovodError(
        'ERR_HVD_PROCESS_SET',
        `${what}: rank ${this.world.rank} is not a member of ${set}. Only its ranks may call this.`,
        { rank: this.world.rank },
      );
    }
    return registered;
  }

  #channelOf(options: CollectiveOptions, what: string): Channel {
    checkOptions(options, what);
    return this.#registered(options.processSet, what).channel as Channel;
  }

  #checkOpen(what: string): void {
    if (this.#closure !== undefined) throw closedError(what, this.world.rank, this.#closure);
    if (this.#failure !== undefined) throw fromCaller(this.#failure);
  }

  #requestOf<R>(
    channel: Channel,
    plan: Plan<R>,
    options: CollectiveOptions,
    key: string | undefined,
    { resolve, reject }: Pick<Request, 'resolve' | 'reject'>,
  ): Request {
    const request = requestOf(channel, {
      plan,
      options,
      key,
      rank: this.world.rank,
      defaultTimeoutMs: this.limits.operationTimeoutMs,
      resolve,
      reject: (error) => {
        const label = labelOf(request.description);
        this.log.write('debug', `${label} ends with ${error.code}`, { topic: 'engine' });
        reject(error);
      },
    });
    return request;
  }
}
