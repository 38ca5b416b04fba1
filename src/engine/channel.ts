// A channel: one process set's way through submit → coalesce → agree → fuse → execute → settle. It holds what this rank
// has asked for and drives the group of the transport; it knows nothing of tensors or sockets.
//
// NOTE [Life of a batch]. Requests of one tick are sorted and become one batch (a *flight*, flights.ts). 'done' settles
// them. 'mismatch' starts a resolution (resolution.ts): the ranks compare what they wait for and run what all have. The
// rest is the *leftover*: a passive batch, which takes part again as soon as another rank has something new to say. No
// step polls, and no two ranks can wait for each other's next move: a round begins only if some rank has something new,
// and then all join it.
//
// Blocking and promise forms share every step. Promise forms are called back by the transport; a Sync form waits for the
// first flight, handles its end, and so on until its request is settled.

import { HorovodError } from '../errors.ts';
import { BatchTrace } from '../transport/trace.ts';
import type { Batch, Outcome, QuickPath, TransportGroup } from '../transport/transport.ts';
import type { PendingList } from './agreement/pending-list.ts';
import type { Uneven } from './agreement/resolve.ts';
import type { ChannelHost } from './channel-host.ts';
import { nowUs } from './clock.ts';
import { labelOf } from './description.ts';
import { type Flight, Flights } from './flights.ts';
import { planRounds } from './fusion/plan-rounds.ts';
import { ObservedOperation, type Observers } from './observer.ts';
import { areOptional, compareKeys, inputBytesOf, minTimeoutMs, type Request } from './request.ts';
import { detachedError, duplicateNameError, isOnlyItsChannels, overdueError } from './request-errors.ts';
import { resolve } from './resolution.ts';

/** A call that either goes by itself, as a quick operation, or becomes a request. */
export interface LoneCall {
  /** Of its inputs, when it was made. */
  readonly inputBytes: number;
  /** Whether its inputs are as they were. */
  isIntact(): boolean;
  run(): void;
  request(): Request;
  reject(error: HorovodError): void;
}

export class Channel {
  readonly group: TransportGroup;
  readonly #host: ChannelHost;
  readonly #flights: Flights;
  readonly #observers: Observers;
  readonly #pending = new Map<string, Request>();
  #tick: Request[] = [];
  #lone: LoneCall | undefined;
  #isFlushScheduled = false;
  #isResolving = false;
  #leftover: Flight | undefined;
  #blockedOn: Request | undefined;
  #broken: HorovodError | undefined;
  #unnamed = 0;
  /** Operations that this rank has taken part in, since all had joined. */
  #operations = 0;
  /** Of the last resolution, by member. */
  #lists: readonly PendingList[] = [];
  #uneven: Uneven | undefined;

  constructor(group: TransportGroup, host: ChannelHost) {
    this.group = group;
    this.#host = host;
    this.#observers = host.observers;
    this.#flights = new Flights(group, (error) => this.#failWith(error));
  }

  /** Counter for requests without a name: they are matched by their order in this process set. */
  nextUnnamed(): number {
    return ++this.#unnamed;
  }

  /** Undoes nextUnnamed() for a request that no other rank has heard of. */
  returnUnnamed(): void {
    this.#unnamed--;
  }

  get isIdle(): boolean {
    return this.#pending.size === 0 && this.#flights.isEmpty && this.#lone === undefined;
  }

  /** Idle, and not failed: a quick path may use the group directly. */
  get isQuiet(): boolean {
    return this.isIdle && this.#broken === undefined;
  }

  /** Requests wait for others to go with them, not only for those of their tick. */
  get waitsForMore(): boolean {
    return this.#host.cycleTimeMs > 0;
  }

  get members(): readonly number[] {
    return this.#host.members;
  }

  get pending(): Iterable<Request> {
    return this.#pending.values();
  }

  /** For stall warnings: that the ranks were at different points of their training when they last compared what they wait for. */
  get uneven(): string | undefined {
    return this.#uneven?.text;
  }

  /** For stall warnings: the global ranks that have not asked for this. */
  missingFor(request: Request): number[] {
    const { members } = this.#host;
    if (!request.wasExchanged) return this.group.missing().map((index) => members[index] as number);
    const { key } = request.description;
    return members.filter((_, i) => !this.#lists[i]?.requests.some((entry) => entry.key === key));
  }

  /** A promise form, while the channel is quiet. It goes by itself if nothing else is asked for in this tick. */
  defer(call: LoneCall): void {
    this.#lone = call;
    queueMicrotask(() => {
      if (this.#lone !== call) return;
      this.#lone = undefined;
      if (call.isIntact()) call.run();
      else this.#join(call);
    });
  }

  /** The promise form: `request.resolve` or `request.reject` will be called. */
  submit(request: Request): void {
    this.#joinLone();
    this.#admit(request);
    request.inputBytes = inputBytesOf(request.operations);
    if (this.#pending.size > 1) this.#host.onBatch?.();
    this.#tick.push(request);
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    const flush = () => {
      this.#isFlushScheduled = false;
      this.#flush();
    };
    if (this.#host.cycleTimeMs > 0) setTimeout(flush, this.#host.cycleTimeMs);
    else queueMicrotask(flush);
  }

  /** The blocking form: returns when the request is settled; its resolve or reject has been called. */
  runSync(request: Request): void {
    this.#joinLone();
    const isAlone = this.isIdle && this.#tick.length === 0;
    this.#admit(request);
    if (!isAlone) this.#tick.push(request);
    this.#block(request, () => {
      if (!isAlone) return this.#flush();
      const batch = this.#batchOf([request]);
      const outcome = this.#flights.attempt(() => this.group.runSync(batch));
      if (outcome !== undefined) this.#endBatch([request], outcome);
    });
    if (request.operation?.error !== undefined) this.#observers.stage(request.operation, 'throwing');
  }

  /** Submits at once, without waiting for the end of the tick. waitSync() must follow. */
  start(request: Request): void {
    this.#joinLone();
    this.#admit(request);
    this.#tick.push(request);
    this.#flush();
  }

  /** Blocks until a request given to start() is settled. */
  waitSync(request: Request): void {
    this.#block(request, () => this.#flush());
  }

  /** An operation was compiled for a call of the user. */
  tellCompiled(operation: ObservedOperation): void {
    this.#observers.compiled(operation);
  }

  /** Before a quick operation. */
  beginQuick(operation: ObservedOperation, quick: QuickPath): void {
    operation.isTraced = false;
    this.#operations++;
    this.#observers.beforeQuick(operation);
    if (quick.isTraced !== operation.isTraced) quick.isTraced = operation.isTraced;
  }

  /** It was done at once. */
  endQuick(operation: ObservedOperation, quick: QuickPath): void {
    operation.finishedAtMs = quick.lastFinishedAtMs();
    if (operation.isTraced) operation.marks = quick.lastMarks;
    this.#observers.afterQuick(operation);
  }

  /** The quick operation of this request has begun and goes on in the background. */
  adoptQuick(request: Request, quick: QuickPath): void {
    this.#admit(request);
    const end = (outcome: Outcome) => this.#endBatch([request], outcome);
    this.#flights.adopt({ batch: this.#batchOf([request]), requests: [request], end }, quick);
  }

  /** The quick operation of this request has met something else, or a failure: `status` says which. */
  settleQuick(request: Request, quick: QuickPath, status: number): void {
    this.#admit(request);
    this.#endQuick(request, quick, status);
  }

  /** The blocking form: the peers may also be late. Returns when the request is settled. */
  settleQuickSync(request: Request, quick: QuickPath, status: number): void {
    this.#admit(request);
    this.#block(request, () => this.#endQuick(request, quick, status));
  }

  /** Takes back a request that has not left this tick; it ends with `error`. False: others may count on it already. */
  withdraw(request: Request, error: HorovodError): boolean {
    const place = this.#tick.indexOf(request);
    if (place < 0) return false;
    this.#tick.splice(place, 1);
    this.#settle(request, error);
    return true;
  }

  /** Ends everything with this error, now and later. */
  fail(error: HorovodError): void {
    if (this.#broken !== undefined) return;
    this.#broken = error;
    this.#lone?.reject(error);
    this.#lone = undefined;
    this.#tick = [];
    this.#flights.drop();
    for (const request of [...this.#pending.values()]) this.#settle(request, error);
  }

  close(): void {
    this.group.close();
  }

  #joinLone(): void {
    const call = this.#lone;
    if (call === undefined) return;
    this.#lone = undefined;
    this.#join(call);
  }

  /** It goes together with the others of its tick. */
  #join(call: LoneCall): void {
    const request = call.request();
    this.submit(request);
    request.inputBytes = call.inputBytes;
  }

  #admit(request: Request): void {
    const { description } = request;
    const { processSet, rank } = this.#host;
    const isNew = request.operation === undefined;
    if (request.operation === undefined) {
      request.operation = ObservedOperation.of(description, processSet);
      request.operation.submittedAtMs = request.submittedAtMs;
      this.#observers.submitted(request.operation);
    } else {
      this.#observers.stage(request.operation, 'slow');
    }
    const isTaken = this.#pending.has(description.key);
    const error = this.#broken ?? (isTaken ? duplicateNameError(rank, request) : undefined);
    if (error !== undefined) {
      this.#tellRejected(request, error);
      throw error;
    }
    if (isNew) this.#operations++;
    this.#pending.set(description.key, request);
  }

  /** Runs the first step of a blocking call, and then waits until the request is settled. */
  #block(request: Request, step: () => void): void {
    this.#blockedOn = request;
    try {
      step();
      while (!request.isSettled) this.#flights.waitForFirst();
    } catch (error) {
      // Nothing has been posted: the caller gets the error, and the request is gone.
      this.#pending.delete(request.description.key);
      this.#tellRejected(request, error);
      throw error;
    } finally {
      this.#blockedOn = undefined;
    }
  }

  #endQuick(request: Request, quick: QuickPath, status: number): void {
    const batch = this.#batchOf([request]);
    // Its native call returned after the first `stallAfterMs`: it has waited that long already.
    let isCounted = false;
    const onStall = () => {
      if (!isCounted) request.submittedAtMs -= batch.stallAfterMs;
      isCounted = true;
      batch.onStall?.([]);
    };
    const outcome = this.#flights.attempt(() => quick.settleSync(status, { ...batch, onStall }));
    if (outcome !== undefined) this.#endBatch([request], outcome);
  }

  #batchOf(requests: readonly Request[], passive = false): Batch {
    const { stallAfterMs } = this.#host;
    const [first, ...others] = requests as [Request, ...Request[]];
    const label = labelOf(first.description);
    const trace = this.#traceOf(requests);
    this.#observers.launched(requests.length);
    return {
      rounds: planRounds(requests, this.#host.fusionThresholdBytes),
      passive,
      timeoutMs: minTimeoutMs(requests),
      stallAfterMs,
      onStall: () => this.#onStall(),
      label: others.length === 0 ? label : `${label} and ${others.length} more`,
      isOptional: areOptional(requests),
      ...(trace === undefined ? {} : { trace }),
    };
  }

  #traceOf(requests: readonly Request[]): BatchTrace | undefined {
    let trace: BatchTrace | undefined;
    for (const { operation } of requests) {
      if (operation?.isTraced !== true) continue;
      trace ??= new BatchTrace(nowUs);
      operation.leave(trace.marks, this.#host.nowMs());
    }
    return trace;
  }

  #onStall(): void {
    const operation = this.#blockedOn?.operation;
    if (operation !== undefined) this.#observers.stage(operation, 'waiting');
    this.#observers.waiting();
  }

  #flush(): void {
    if (this.#tick.length === 0 || this.#isResolving || this.#broken !== undefined) return;
    const waiting = this.#leftover === undefined ? [] : this.#reclaim();
    // Another rank has drawn it into a round already. How that ended comes first: after a mismatch the next
    // thing this rank posts must be its list. The end of the leftover flushes again.
    if (this.#leftover !== undefined) return;
    this.#launchBatch([...waiting, ...this.#takeTick()], false);
  }

  #takeTick(): Request[] {
    const requests = this.#tick;
    this.#tick = [];
    return requests;
  }

  /** The requests of every batch that had not begun. */
  #reclaim(): Request[] {
    const taken = this.#flights.takeBack();
    if (this.#leftover !== undefined && taken.includes(this.#leftover)) this.#leftover = undefined;
    return taken.flatMap(({ requests }) => requests);
  }

  #launchBatch(requests: Request[], passive: boolean): void {
    const sorted = requests.sort(compareKeys);
    if (!this.#areIntact(sorted)) return;
    const timeLeftMs = Math.min(...sorted.map((request) => this.#timeLeft(request)));
    const flight: Flight = {
      batch: { ...this.#batchOf(sorted, passive), timeoutMs: Math.max(timeLeftMs, 1) },
      requests: sorted,
      end: (outcome) => {
        if (flight === this.#leftover) this.#leftover = undefined;
        this.#endBatch(sorted, outcome);
        if (passive) this.#flush();
      },
    };
    if (passive) this.#leftover = flight;
    this.#flights.launch(flight);
  }

  /** Other ranks may count on a request whose memory is gone: the job ends, and all ranks get the reason. */
  #areIntact(requests: readonly Request[]): boolean {
    const broken = requests.find(
      ({ inputBytes, operations }) => inputBytes !== undefined && inputBytes !== inputBytesOf(operations),
    );
    if (broken === undefined) return true;
    this.#host.fail(detachedError(this.#host.rank, broken));
    return false;
  }

  #endBatch(requests: readonly Request[], outcome: Outcome): void {
    if (outcome === 'mismatch') this.#resolve(requests);
    else for (const request of requests) this.#settle(request, undefined);
  }

  #settle(request: Request, error: HorovodError | undefined): void {
    if (request.isSettled) return;
    request.isSettled = true;
    const { description, operation } = request;
    if (this.#pending.get(description.key) === request) this.#pending.delete(description.key);
    if (operation !== undefined && !operation.isRejected) this.#tellSettled(operation, error?.code);
    if (error === undefined) request.resolve();
    else request.reject(error);
  }

  #tellRejected({ operation }: Request, error: unknown): void {
    if (operation === undefined) return;
    operation.isRejected = true;
    this.#tellSettled(operation, HorovodError.is(error) ? error.code : String(error));
  }

  #tellSettled(operation: ObservedOperation, error: string | undefined): void {
    operation.finishedAtMs = this.#host.nowMs();
    operation.error = error;
    this.#observers.settled(operation);
  }

  /** An error of the transport ends the job, or this channel alone. */
  #failWith(error: HorovodError): void {
    (isOnlyItsChannels(error, [...this.#pending.values()]) ? this : this.#host).fail(error);
  }

  /**
   * A request that others have passed over keeps its deadline, however often they come by with something else. A
   * join does not: it waits exactly for that to end.
   */
  #timeLeft(request: Request): number {
    if (request.wasExchanged !== true || request.description.kind === 'join') return request.timeoutMs;
    return request.timeoutMs - (this.#host.nowMs() - request.submittedAtMs);
  }

  #resolve(mismatched: readonly Request[]): void {
    this.#isResolving = true;
    const requests = [...mismatched, ...this.#reclaim(), ...this.#takeTick()];
    resolve(requests, this.#host, {
      isBlocked: this.#blockedOn !== undefined,
      unnamed: this.#unnamed,
      operations: this.#operations,
      launch: (batch, end) => {
        const { stallAfterMs } = this.#host;
        const watched = { ...batch, stallAfterMs, onStall: () => this.#onStall() };
        this.#flights.launch({ batch: watched, requests: [], end });
      },
      batchOf: (agreed) => (this.#areIntact(agreed) ? this.#batchOf(agreed) : undefined),
      settle: (request, error) => this.#settle(request, error),
      onLists: (lists, uneven) => {
        this.#lists = lists;
        this.#uneven = uneven;
      },
      // Those who joined early have not counted what the others did since: from here on all count alike.
      onAllJoined: (unnamed) => {
        this.#unnamed = Math.max(this.#unnamed, unnamed);
        this.#operations = 0;
      },
      onEnd: () => this.#endResolution(requests),
    });
  }

  #endResolution(requests: readonly Request[]): void {
    this.#isResolving = false;
    const leftover = requests.filter((request) => !request.isSettled);
    const overdue = leftover.find((request) => this.#timeLeft(request) <= 0);
    if (overdue !== undefined) {
      this.#host.fail(overdueError(this.#host.rank, overdue, this.missingFor(overdue)));
      return;
    }
    const fresh = this.#takeTick();
    if (fresh.length > 0) this.#launchBatch([...leftover, ...fresh], false);
    else if (leftover.length > 0) this.#launchBatch(leftover, true);
  }
}
