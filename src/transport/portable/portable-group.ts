// One member's part of a group on the portable transport: its queue of batches, the generator of the first batch, and the
// two ways to drive it. A *pump* resumes the generator once. The event loop pumps for the promise forms, a
// blocking loop for the Sync forms; both may take turns on the same batch.

import assert from 'node:assert';
import { HorovodError } from '../../errors.ts';
import { BatchQueue, type Complete, type QueuedBatch } from '../group/batch-queue.ts';
import { stage } from '../trace.ts';
import type { Batch, Outcome, TransportGroup } from '../transport.ts';
import type { Steps, Turn } from './algorithms/exchange.ts';
import type { Rounds } from './round.ts';
import { WaitWatch } from './wait-watch.ts';
import { BlockingPause, LoopPause } from './waiting.ts';

/** What a group needs of its transport. */
export interface GroupHost {
  readonly failure: HorovodError | undefined;
  /** More ranks than cores on this host. */
  readonly isCrowded: boolean;
  /** Ends every batch of every group with this error, or with an earlier one; returns that error. */
  fail(error: HorovodError): HorovodError;
  /** The failure of another rank, or the loss of one of these ranks. */
  findFailure(ranks: readonly number[]): HorovodError | undefined;
  /** Resumes the other groups' operations while this one blocks the thread. */
  pumpOthers(group: PortableGroup): void;
  onClose(group: PortableGroup): void;
}

/** Polls without progress before the event loop gets its turn, and how long they may take. */
const pollsPerTurn = 8;
const pollingUs = 50;
/** How long a transfer that never has to wait may hold the event loop. */
const sliceMs = 1;
/** A member that was in no round for this long checks for failures first; the check costs a system call. */
const lateMs = 20;

export class PortableGroup implements TransportGroup {
  readonly index: number;
  readonly size: number;
  readonly members: readonly number[];
  readonly #rounds: Rounds;
  readonly #pollUs: number;
  readonly #host: GroupHost;
  readonly #batches = new BatchQueue();
  readonly #loop = new LoopPause();
  readonly #watch: WaitWatch;
  /** Global ranks of the other members. */
  readonly #others: readonly number[];
  #running: { readonly entry: QueuedBatch; readonly steps: Steps<Outcome> } | undefined;
  #isClosed = false;
  #lookedAt = 0;

  /** `pollUs`: what one poll for other members costs. */
  constructor(rounds: Rounds, members: readonly number[], host: GroupHost, pollUs = 0.3) {
    this.#rounds = rounds;
    this.#pollUs = pollUs;
    this.index = rounds.index;
    this.size = rounds.size;
    this.members = members;
    this.#others = members.filter((_, index) => index !== rounds.index);
    this.#host = host;
    this.#watch = new WaitWatch(this.#rankOf(this.index), host);
  }

  submit(batch: Batch, complete: Complete): Outcome | undefined {
    const entry = this.#batches.add(batch, complete);
    if (this.#failIfBroken()) return undefined;
    // A small operation whose peers have arrived already can finish here.
    if (this.#batches.head === entry) this.#pumpBriefly();
    const outcome = this.#batches.fetchIfOver(entry);
    if (outcome === undefined) this.#continueOnLoop();
    return outcome;
  }

  runSync(batch: Batch): Outcome {
    const entry = this.#batches.addAlone(batch);
    if (!this.#failIfBroken()) this.#block(entry);
    return this.#batches.fetch(entry);
  }

  /**
   * If an earlier batch of the queue mismatches, this one cannot start; then the answer is 'mismatch' as well, and
   * takeBack() returns the batch.
   */
  waitSync(batch: Batch): Outcome {
    const entry = this.#batches.find(batch);
    if (entry.result === undefined) this.#block(entry);
    if (entry.result === undefined) return 'mismatch';
    return this.#batches.fetch(entry);
  }

  takeBack(): Batch[] {
    const taken = this.#batches.takeBack();
    if (this.#running !== undefined && taken.includes(this.#running.entry.batch)) this.#running = undefined;
    this.#continueOnLoop();
    return taken;
  }

  missing(): number[] {
    return this.#isClosed ? [] : this.#rounds.withoutPost();
  }

  /** Ends all batches. */
  fail(error: HorovodError): void {
    this.#running = undefined;
    this.#batches.settleAll(error);
    this.#loop.cancel();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.fail(closedError(this.#rankOf(this.index)));
    this.#rounds.close();
    this.#host.onClose(this);
  }

  /** For the transport, while another group blocks: resumes the first batch once. */
  pumpOnce(): void {
    if (this.#batches.head !== undefined) this.#pump();
  }

  #failIfBroken(): boolean {
    const error = this.#isClosed ? closedError(this.#rankOf(this.index)) : this.#host.failure;
    if (error !== undefined) this.fail(error);
    return error !== undefined;
  }

  /** Blocks until the batch is over, or the queue halts before it. */
  #block(entry: QueuedBatch): void {
    const pause = new BlockingPause(this.#host.isCrowded, this.#pollUs);
    this.#watch.begin();
    for (let turns = 0; entry.result === undefined && !this.#batches.isHalted; turns++) {
      if (this.#pump() === 'progress') {
        pause.reset();
        this.#watch.begin();
        continue;
      }
      if (entry.result !== undefined || this.#batches.isHalted) break;
      if (pause.pause() || turns % 64 === 63) {
        this.#host.pumpOthers(this);
        this.#check(true);
      }
    }
    this.#continueOnLoop();
  }

  #continueOnLoop(): void {
    if (this.#batches.head === undefined) {
      this.#loop.cancel();
      return;
    }
    this.#loop.schedule(() => {
      if (this.#batches.head === undefined) return;
      if (this.#pumpBriefly() === 'progress') this.#loop.reset();
      this.#check(false);
      this.#continueOnLoop();
    });
  }

  /** Pumps until other members must act first, or the time slice is over. */
  #pumpBriefly(): Turn {
    const end = performance.now() + sliceMs;
    const maxPolls = Math.max(1, Math.min(pollsPerTurn, Math.floor(pollingUs / this.#pollUs)));
    let result: Turn = 'waiting';
    for (let polls = 0; this.#batches.head !== undefined && polls < maxPolls; polls++) {
      if (this.#pump() === 'waiting') continue;
      result = 'progress';
      polls = -1;
      if (performance.now() > end) break;
    }
    return result;
  }

  /** Checks the deadline, stalls and lost members. Called only when the last pump had to wait. */
  #check(isSync: boolean): void {
    const { head } = this.#batches;
    if (head === undefined) return;
    const lacking = () => this.#rounds.lacking();
    const error = this.#watch.check(head.batch, isSync, lacking, this.#others, (index) =>
      this.#rankOf(index),
    );
    if (error === undefined) return;
    // The member may have acted just before it was lost: look once more.
    if (this.#pump() !== 'waiting' || this.#batches.head !== head) return;
    const isOnlyOurs = head.batch.isOptional === true && error.code === 'ERR_HVD_SHUT_DOWN';
    if (isOnlyOurs) this.fail(error);
    else this.#failWith(error, head.batch);
  }

  #pump(): Turn {
    const { head } = this.#batches;
    if (head === undefined) return 'waiting';
    if (this.#running?.entry !== head) {
      this.#running = { entry: head, steps: this.#run(head) };
      this.#watch.begin();
    }
    try {
      const { done, value } = this.#running.steps.next();
      if (done !== true) {
        if (value === 'progress') this.#watch.begin();
        return value;
      }
      this.#running = undefined;
      this.#batches.settleHead(value);
    } catch (error) {
      this.#failWith(asHorovodError(error, head.batch), head.batch);
    }
    return 'progress';
  }

  #failWith(error: HorovodError, batch: Batch): void {
    if (batch.isOpening === true) this.fail(error);
    else this.#host.fail(error);
  }

  *#run(entry: QueuedBatch): Steps<Outcome> {
    const { rounds, passive, trace } = entry.batch;
    for (const [index, round] of rounds.entries()) {
      entry.round = index;
      this.#checkNotFailed();
      const isAgreed = yield* this.#rounds.run(
        round,
        passive && index === 0,
        () => {
          entry.isPosted = true;
          trace?.mark(stage.posted);
        },
        trace && (() => trace.mark(stage.agreed)),
      );
      trace?.mark(stage.over);
      entry.isPosted = false;
      if (isAgreed) continue;
      assert(index === 0, `members disagree about round ${index} of ${entry.batch.label}`);
      return 'mismatch';
    }
    return 'done';
  }

  /** A late member may find posts of members that have given up since; for them the operation has failed. */
  #checkNotFailed(): void {
    const now = performance.now();
    if (now - this.#lookedAt < lateMs) return;
    this.#lookedAt = now;
    const failure = this.#host.findFailure([]);
    if (failure !== undefined) throw failure;
  }

  #rankOf(index: number): number {
    return this.members[index] as number;
  }
}

function closedError(rank: number): HorovodError {
  return new HorovodError('ERR_HVD_SHUT_DOWN', `this process set was closed on rank ${rank}`);
}

function asHorovodError(error: unknown, batch: Batch): HorovodError {
  if (HorovodError.is(error)) return error;
  const isFromSystem = /^E[A-Z0-9]+$/.test((error as NodeJS.ErrnoException).code ?? '');
  const code = isFromSystem ? 'ERR_HVD_SHARED_MEMORY' : 'ERR_HVD_NATIVE';
  return new HorovodError(code, `${batch.label} failed: ${String(error)}`, { cause: error });
}
