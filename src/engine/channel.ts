// A channel: one process set's way through submit → coalesce → agree → fuse → execute → settle. It holds what
// this rank has asked for and drives the transport's group; it knows nothing of tensors or sockets.
//
// NOTE [Life of a batch]. Requests of one tick are sorted and become one job (a *flight*). 'done' settles
// them. 'mismatch' starts a resolution: take back what has not begun, exchange pending lists, decide
// (agreement/resolve.ts), run what all ranks have, and keep the rest as a *passive* job, which takes part
// again as soon as another rank has something new to say. No step polls, and no two ranks can wait for each
// other's next move: a round begins only if some rank has something new, and then all join it.
//
// Blocking and promise forms share every step. The promise forms are called back by the transport; a Sync form
// waits for the first flight, handles its end, and so on until its own request is settled.

import { HorovodError } from '../errors.ts';
import { traceOfBatch } from '../observe/timeline/operation-trace.ts';
import type { AllgatherOperation, Batch, Outcome, Round, TransportGroup } from '../transport/transport.ts';
import { decodePendingLists, encodePendingList, type PendingList } from './agreement/pending-list.ts';
import { resolvePending } from './agreement/resolve.ts';
import { planRounds } from './fusion/plan-rounds.ts';
import {
  areOptional,
  compareKeys,
  type Description,
  inputBytesOf,
  labelOf,
  leastMs,
  nameOf,
  type Request,
} from './request.ts';
import { detachedError, duplicateNameError, isOnlyItsChannels, overdueError } from './request-errors.ts';

export interface ChannelHost {
  /** Global rank of this process. */
  readonly rank: number;
  /** Global ranks of the members. */
  readonly members: readonly number[];
  /** The same on all ranks whenever they plan the same batch; it may change while nothing is in flight. */
  readonly fusionThresholdBytes: number;
  /** Requests of one tick are coalesced; this adds a window of time. */
  readonly cycleTimeMs: number;
  readonly stallAfterMs: number;
  /** The clock of Request.submittedAtMs. */
  nowMs(): number;
  /** The job cannot go on: tell every channel and every rank. */
  fail(error: HorovodError): void;
  /** Requests have been waiting; called about every `stallAfterMs` of a blocking wait. */
  onStall(channel: Channel): void;
  /** An optional request, of this rank or another, that not all ranks asked for at one time. Said on all of them. */
  onGivenUp?(key: string): void;
  /** Several requests are in flight: they might go together. */
  onBatch?(): void;
  /** The part of a rank that has joined: the same operation with zeros. */
  zeroRequest(description: Description): Request;
}

interface Flight {
  readonly batch: Batch;
  readonly end: (outcome: Outcome) => void;
  /** The requests it carries; none for an exchange of lists. */
  readonly requests: readonly Request[];
}

/** What the exchange of lists calls itself; no batch has this fingerprint but by a chance of 2^-64. */
const exchangeFingerprint = { fingerprintLow: 0x4c495354, fingerprintHigh: 0x45584348 };

export class Channel {
  readonly group: TransportGroup;
  readonly #host: ChannelHost;
  readonly #pending = new Map<string, Request>();
  readonly #flights: Flight[] = [];
  #tick: Request[] = [];
  #isFlushScheduled = false;
  #isResolving = false;
  #leftover: Flight | undefined;
  #blockedOn: Request | undefined;
  #broken: HorovodError | undefined;
  #unnamed = 0;
  #lists: readonly PendingList[] = [];

  constructor(group: TransportGroup, host: ChannelHost) {
    this.group = group;
    this.#host = host;
  }

  /** Counter for requests without a name: they are matched by their order in this process set. */
  nextUnnamed(): number {
    return ++this.#unnamed;
  }

  /** Undoes nextUnnamed() for a request that was refused at the door. */
  returnUnnamed(): void {
    this.#unnamed--;
  }

  get isIdle(): boolean {
    return this.#pending.size === 0 && this.#flights.length === 0;
  }

  /** Idle, and well: a quick path may use the group directly. */
  get isQuiet(): boolean {
    return this.#pending.size === 0 && this.#flights.length === 0 && this.#broken === undefined;
  }

  get members(): readonly number[] {
    return this.#host.members;
  }

  get pending(): Iterable<Request> {
    return this.#pending.values();
  }

  /** For stall warnings: the global ranks that have not asked for this. */
  missingFor(request: Request): number[] {
    const { members } = this.#host;
    if (!request.wasExchanged) return this.group.missing().map((index) => members[index] as number);
    const { key } = request.description;
    return members.filter((_, i) => !this.#lists[i]?.requests.some((entry) => entry.key === key));
  }

  /** The promise form: `request.resolve` or `request.reject` will be called. */
  submit(request: Request): void {
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
    if (this.isIdle && this.#tick.length === 0) {
      this.#admit(request);
      this.#blockedOn = request;
      try {
        const requests = [request];
        const outcome = this.#attempt(() =>
          this.group.runSync(this.#batchOf(requests, this.#rounds(requests), false)),
        );
        if (outcome !== undefined) this.#endBatch(requests, outcome);
        this.#waitFor(request);
      } finally {
        this.#blockedOn = undefined;
      }
      return;
    }
    this.#admit(request);
    this.#tick.push(request);
    this.waitSync(request);
  }

  /** Submits at once, without waiting for the end of the tick. waitSync() must follow. */
  start(request: Request): void {
    this.#admit(request);
    this.#tick.push(request);
    this.#flush();
  }

  /** Blocks until a request given to start() is settled. */
  waitSync(request: Request): void {
    this.#blockedOn = request;
    try {
      this.#flush();
      this.#waitFor(request);
    } finally {
      this.#blockedOn = undefined;
    }
  }

  /** For the quick path: `request` has begun on its own and goes on in the background. */
  adopt(
    request: Request,
    adopt: (batch: Batch, complete: (outcome: Outcome | HorovodError) => void) => void,
  ): void {
    this.#admit(request);
    const flight: Flight = {
      batch: this.quickBatch(request),
      requests: [request],
      end: (outcome) => this.#endBatch([request], outcome),
    };
    this.#flights.push(flight);
    adopt(flight.batch, (outcome) => this.#land(flight, outcome));
  }

  /** For the quick path: `request` ran on its own and met something else. */
  resolve(request: Request): void {
    this.#admit(request);
    this.#resolve([request]);
  }

  /** The same, blocking until it is settled. */
  resolveSync(request: Request): void {
    this.#admit(request);
    this.#blockedOn = request;
    try {
      this.#resolve([request]);
      this.#waitFor(request);
    } finally {
      this.#blockedOn = undefined;
    }
  }

  /** The job of a request that runs on its own, for the quick paths' error texts and stall warnings. */
  quickBatch(request: Request): Batch {
    const batch = this.#batchOf([request], this.#rounds([request]), false);
    const { key } = request.description;
    // A quick operation becomes a request only when it has stalled for the first time: that long it has waited.
    const stalled = { ...request, submittedAtMs: request.submittedAtMs - batch.stallAfterMs };
    const onStall = () => {
      const isListed = this.#pending.has(key);
      if (!isListed) this.#pending.set(key, stalled);
      this.#host.onStall(this);
      if (!isListed) this.#pending.delete(key);
    };
    return { ...batch, onStall };
  }

  /** Takes back a request that has not left this tick. False: it has, and other ranks may count on it. */
  withdraw(request: Request): boolean {
    const place = this.#tick.indexOf(request);
    if (place < 0) return false;
    this.#tick.splice(place, 1);
    this.#pending.delete(request.description.key);
    request.isSettled = true;
    return true;
  }

  /** Ends everything with this error, now and later. */
  fail(error: HorovodError): void {
    if (this.#broken !== undefined) return;
    this.#broken = error;
    const requests = [...this.#pending.values()];
    this.#pending.clear();
    this.#tick = [];
    this.#flights.length = 0;
    for (const request of requests) this.#settle(request, error);
  }

  close(): void {
    this.group.close();
  }

  #admit(request: Request): void {
    if (this.#broken !== undefined) throw this.#broken;
    const { key } = request.description;
    if (this.#pending.has(key)) {
      throw duplicateNameError(this.#host.rank, request);
    }
    this.#pending.set(key, request);
  }

  #rounds(requests: readonly Request[]): Round[] {
    return planRounds(requests, this.#host.fusionThresholdBytes);
  }

  #batchOf(requests: readonly Request[], rounds: readonly Round[], passive: boolean): Batch {
    const [first, ...others] = requests;
    const label = first === undefined ? 'an exchange of pending lists' : labelOf(first.description);
    return {
      rounds,
      passive,
      timeoutMs: leastMs(requests, ({ timeoutMs }) => timeoutMs),
      stallAfterMs: this.#host.stallAfterMs,
      onStall: () => {
        this.#blockedOn?.note?.('waits long');
        this.#host.onStall(this);
      },
      label: others.length === 0 ? label : `${label} and ${others.length} more`,
      isOptional: areOptional(requests),
      ...traceOfBatch(requests),
    };
  }

  #flush(): void {
    if (this.#tick.length === 0 || this.#isResolving || this.#broken !== undefined) return;
    const waiting = this.#leftover === undefined ? [] : this.#reclaim();
    // Another rank has drawn it into a round already. How that ended comes first: after a mismatch the next
    // thing this rank posts must be its list. The end of the leftover flushes again.
    if (this.#leftover !== undefined) return;
    const fresh = this.#tick;
    this.#tick = [];
    this.#launchBatch([...waiting, ...fresh], false);
  }

  /** The requests of every job that had not begun. */
  #reclaim(): Request[] {
    const taken = new Set(this.group.takeBack());
    const requests: Request[] = [];
    for (let i = this.#flights.length - 1; i >= 0; i--) {
      const flight = this.#flights[i] as Flight;
      if (!taken.has(flight.batch)) continue;
      this.#flights.splice(i, 1);
      if (flight === this.#leftover) this.#leftover = undefined;
      requests.push(...flight.requests);
    }
    return requests;
  }

  #launchBatch(requests: Request[], passive: boolean): void {
    const sorted = requests.sort(compareKeys);
    if (!this.#areIntact(sorted)) return;
    const timeoutMs = leastMs(sorted, (request) => this.#timeLeft(request));
    const batch = {
      ...this.#batchOf(sorted, this.#rounds(sorted), passive),
      timeoutMs: Math.max(timeoutMs, 1),
    };
    const flight: Flight = {
      batch,
      requests: sorted,
      end: (outcome) => {
        if (flight === this.#leftover) this.#leftover = undefined;
        this.#endBatch(sorted, outcome);
        if (passive) this.#flush();
      },
    };
    if (passive) this.#leftover = flight;
    this.#launch(flight);
  }

  /** Other ranks may count on a request whose memory is gone: the job ends, and all learn why. */
  #areIntact(requests: readonly Request[]): boolean {
    const broken = requests.find(
      ({ inputBytes, operations }) => inputBytes !== undefined && inputBytes !== inputBytesOf(operations),
    );
    if (broken === undefined) return true;
    this.#host.fail(detachedError(this.#host.rank, broken));
    return false;
  }

  #launch(flight: Flight): void {
    this.#flights.push(flight);
    const outcome = this.#attempt(() => this.group.submit(flight.batch, (late) => this.#land(flight, late)));
    if (outcome !== undefined) this.#land(flight, outcome);
  }

  #land(flight: Flight, outcome: Outcome | HorovodError): void {
    if (this.#broken !== undefined) return;
    const place = this.#flights.indexOf(flight);
    if (place >= 0) this.#flights.splice(place, 1);
    if (outcome instanceof HorovodError) this.#failWith(outcome);
    else flight.end(outcome);
  }

  /** Runs a transport's call; its error is the end of the job. */
  #attempt(call: () => Outcome | undefined): Outcome | undefined {
    try {
      return call();
    } catch (error) {
      // Nothing has been posted: the caller must hear it, and the request is gone.
      if (!HorovodError.is(error) || error.code === 'ERR_HVD_WOULD_BLOCK') {
        if (this.#blockedOn !== undefined) this.#pending.delete(this.#blockedOn.description.key);
        throw error;
      }
      this.#failWith(error);
      return undefined;
    }
  }

  /** An error of the transport is the end of the job, or of this channel alone. */
  #failWith(error: HorovodError): void {
    (isOnlyItsChannels(error, [...this.#pending.values()]) ? this : this.#host).fail(error);
  }

  #waitFor(request: Request): void {
    while (!request.isSettled) {
      const flight = this.#flights[0];
      if (flight === undefined)
        throw new Error(`internal: ${labelOf(request.description)} waits for nothing`);
      const outcome = this.#attempt(() => this.group.waitSync(flight.batch));
      if (outcome !== undefined) this.#land(flight, outcome);
    }
  }

  #endBatch(requests: readonly Request[], outcome: Outcome): void {
    if (outcome === 'mismatch') this.#resolve([...requests]);
    else for (const request of requests) this.#settle(request, undefined);
  }

  #settle(request: Request, error: HorovodError | undefined): void {
    if (request.isSettled) return;
    request.isSettled = true;
    if (this.#pending.get(request.description.key) === request) this.#pending.delete(request.description.key);
    if (error === undefined) request.resolve();
    else request.reject(error);
  }

  /**
   * A request that others have passed over keeps its deadline, however often they come by with something else. A
   * join does not: it waits exactly for that to end.
   */
  #timeLeft(request: Request): number {
    if (request.wasExchanged !== true || request.description.kind === 'join') return request.timeoutMs;
    return request.timeoutMs - (this.#host.nowMs() - request.submittedAtMs);
  }

  #resolve(mismatched: Request[]): void {
    this.#isResolving = true;
    const requests = [...mismatched, ...this.#reclaim(), ...this.#tick];
    this.#tick = [];
    const list: PendingList = {
      isBlocked: this.#blockedOn !== undefined,
      unnamed: this.#unnamed,
      requests: requests.map(({ description, submittedAtMs }) => ({ ...description, submittedAtMs })),
    };
    const operation: AllgatherOperation = { kind: 'allgather', input: encodePendingList(list) };
    const round = { ...exchangeFingerprint, operation };
    const { timeoutMs, isOptional } = this.#batchOf(requests, [], false);
    this.#launch({
      batch: { ...this.#batchOf([], [round], false), timeoutMs, isOptional },
      requests: [],
      end: (outcome) => {
        if (this.#isAgreed(outcome)) this.#decide(requests, operation);
      },
    });
  }

  /** After a decision all ranks do the same; that they do not is a bug, and not to be waited out. */
  #isAgreed(outcome: Outcome): boolean {
    if (outcome === 'done') return true;
    this.#host.fail(
      new HorovodError(
        'ERR_HVD_NATIVE',
        `rank ${this.#host.rank}: ranks disagree about an agreed operation; this is a bug`,
      ),
    );
    return false;
  }

  #decide(requests: readonly Request[], operation: AllgatherOperation): void {
    const { members, rank } = this.#host;
    try {
      this.#lists = decodePendingLists(operation, members);
    } catch (error) {
      this.#host.fail(error as HorovodError);
      return;
    }
    for (const request of requests) {
      request.wasExchanged = true;
      request.trace?.exchange();
    }
    const { run, errors, givenUp, lastJoined, deadlock } = resolvePending(this.#lists, members);
    for (const key of givenUp) this.#host.onGivenUp?.(key);
    // Those who joined early have not counted what the others did since: from here on all count alike.
    if (lastJoined !== undefined) {
      this.#unnamed = this.#lists.reduce((most, { unnamed }) => Math.max(most, unnamed), this.#unnamed);
    }
    for (const request of requests) {
      const { key, kind } = request.description;
      const found = errors.get(key);
      const tensor = nameOf(request.description);
      const error =
        deadlock !== undefined
          ? new HorovodError('ERR_HVD_DEADLOCK', deadlock, { rank, tensor })
          : found && new HorovodError(found.code, found.message, { tensor, rank: found.rank });
      if (error !== undefined) {
        this.#settle(request, error);
      } else if (kind === 'join' && lastJoined !== undefined) {
        request.lastJoined = lastJoined;
        this.#settle(request, undefined);
      }
    }
    const batch = run.map(
      (description) =>
        requests.find(({ description: own }) => own.key === description.key) ??
        this.#host.zeroRequest(description),
    );
    if (batch.length === 0) {
      this.#endResolution(requests);
      return;
    }
    if (!this.#areIntact(batch)) return;
    for (const request of batch) request.note?.('agreed');
    this.#launch({
      batch: this.#batchOf(batch, this.#rounds(batch), false),
      requests: [],
      end: (outcome) => {
        if (!this.#isAgreed(outcome)) return;
        for (const request of batch) this.#settle(request, undefined);
        this.#endResolution(requests);
      },
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
    const fresh = this.#tick;
    this.#tick = [];
    if (fresh.length > 0) this.#launchBatch([...leftover, ...fresh], false);
    else if (leftover.length > 0) this.#launchBatch(leftover, true);
  }
}
