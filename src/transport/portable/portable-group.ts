// One member's half of a group on the portable transport: its queue of jobs, the generator of the job in front, and the
// two ways to drive it. A *pump* resumes the generator once. The event loop pumps for the promise forms, a
// blocking loop for the Sync ones; both may take turns on the same job.

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
  /** Ends every job of every group with this error, or with an earlier one, which is returned. */
  fail(error: HorovodError): HorovodError;
  /** Somebody else's failure, or the loss of one of these ranks. */
  findFailure(ranks: readonly number[]): HorovodError | undefined;
  /** Resumes what other groups have under way, while one blocks the thread. */
  pumpOthers(group: PortableGroup): void;
  onClose(group: PortableGroup): void;
}

/** Fruitless questions in a row before the event loop is given back, and how long they may take. */
const pollsPerTurn = 8;
const pollingUs = 50;
/** How long a transfer that never has to wait may keep the event loop. */
const sliceMs = 1;
/** Who has not been in a round for this long is late; looking costs a system call. */
const lateMs = 20;

export class PortableGroup implements TransportGroup {
  readonly index: number;
  readonly size: number;
  readonly members: readonly number[];
  readonly #rounds: Rounds;
  readonly #questionUs: number;
  readonly #host: GroupHost;
  readonly #batches = new BatchQueue();
  readonly #loop = new LoopPause();
  readonly #watch: WaitWatch;
  /** Global ranks of the other members. */
  readonly #others: readonly number[];
  #running: { readonly entry: QueuedBatch; readonly steps: Steps<Outcome> } | undefined;
  #isClosed = false;
  #lookedAt = 0;

  /** `questionUs`: what it costs to ask in vain whether others have come. */
  constructor(rounds: Rounds, members: readonly number[], host: GroupHost, questionUs = 0.3) {
    this.#rounds = rounds;
    this.#questionUs = questionUs;
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
    // Small operations whose peers are there already are over before a promise would be.
    if (this.#batches.head === entry) this.#pumpBriefly();
    const { result } = entry;
    if (result === 'done' || result === 'mismatch') return this.#batches.fetch(entry);
    this.#continueOnLoop();
    return undefined;
  }

  runSync(batch: Batch): Outcome {
    assert(this.#batches.length === 0, 'runSync() while another job of the group is queued');
    const entry = this.#batches.add(batch, () => {});
    if (!this.#failIfBroken()) this.#block(entry);
    return this.#batches.fetch(entry);
  }

  /**
   * Where an earlier job of the queue mismatches, this one cannot start; then the answer is 'mismatch' as well, and
   * takeBack() gives the job back.
   */
  waitSync(batch: Batch): Outcome {
    const entry = this.#batches.find(batch);
    assert(entry !== undefined, `waitSync() for ${batch.label}, which is not under way`);
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

  /** Ends all jobs. */
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

  /** For the transport, while another group blocks: one turn of what is under way here. */
  pumpOnce(): void {
    if (this.#batches.head !== undefined) this.#pump();
  }

  #failIfBroken(): boolean {
    const error = this.#isClosed ? closedError(this.#rankOf(this.index)) : this.#host.failure;
    if (error !== undefined) this.fail(error);
    return error !== undefined;
  }

  /** Blocks until the job is over, or the queue halts before it. */
  #block(entry: QueuedBatch): void {
    const pause = new BlockingPause(this.#host.isCrowded, this.#questionUs);
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

  /** Pumps until others must act first, or this has lasted long enough. */
  #pumpBriefly(): Turn {
    const end = performance.now() + sliceMs;
    const most = Math.max(1, Math.min(pollsPerTurn, Math.floor(pollingUs / this.#questionUs)));
    let result: Turn = 'waiting';
    for (let polls = 0; this.#batches.head !== undefined && polls < most; polls++) {
      if (this.#pump() === 'waiting') continue;
      result = 'progress';
      polls = -1;
      if (performance.now() > end) break;
    }
    return result;
  }

  /** Deadline, stalls, lost members. Only ever called when the last pump had to wait. */
  #check(isSync: boolean): void {
    const { head } = this.#batches;
    if (head === undefined) return;
    const lacking = () => this.#rounds.lacking();
    const error = this.#watch.check(head.batch, isSync, lacking, this.#others, (index) =>
      this.#rankOf(index),
    );
    if (error === undefined) return;
    // What is found out about a member may be younger than its last word: look once more.
    if (this.#pump() !== 'waiting' || this.#batches.head !== head) return;
    if (head.batch.isOptional === true && error.code === 'ERR_HVD_SHUT_DOWN') this.fail(error);
    else this.#host.fail(error);
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
      this.#host.fail(asHorovodError(error, head.batch));
    }
    return 'progress';
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
      assert(index === 0, `round ${index} of ${entry.batch.label} differs between members`);
      return 'mismatch';
    }
    return 'done';
  }

  /** Who comes late may find the posts of members that have given up since; for them the operation has failed. */
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
  return new HorovodError('ERR_HVD_SHUT_DOWN', `the group was closed on rank ${rank}`);
}

function asHorovodError(error: unknown, batch: Batch): HorovodError {
  if (HorovodError.is(error)) return error;
  const isFromSystem = /^E[A-Z0-9]+$/.test((error as NodeJS.ErrnoException).code ?? '');
  const code = isFromSystem ? 'ERR_HVD_SHARED_MEMORY' : 'ERR_HVD_NATIVE';
  return new HorovodError(code, `${batch.label} broke off: ${String(error)}`, { cause: error });
}
