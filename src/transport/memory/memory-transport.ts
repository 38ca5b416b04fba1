// The in-memory transport: several ranks in one process on one event loop, for tests, and the one rank of a job
// without a launcher. A round runs as soon as its last member posts, for all members at once.
//
// A member's batch is in one of these states: queued → posted → (next round) queued → … → settled.

import assert from 'node:assert';
import { HorovodError } from '../../errors.ts';
import { BatchQueue, type QueuedBatch } from '../group/batch-queue.ts';
import { runTogether } from '../group/run-together.ts';
import { timeoutError } from '../group/wait-errors.ts';
import { stage } from '../trace.ts';
import type {
  Batch,
  GroupSpec,
  Outcome,
  Round,
  Transport,
  TransportGroup,
  TransportOperation,
} from '../transport.ts';

/** Where the ranks of one process meet. */
export class MemoryHub {
  readonly ranks: number;
  readonly #groups = new Map<string, Meeting>();
  #failure: HorovodError | undefined;
  #opened = 0;

  constructor(ranks: number) {
    this.ranks = ranks;
  }

  transport(rank: number): MemoryTransport {
    assert(rank >= 0 && rank < this.ranks);
    return new MemoryTransport(this);
  }

  get failure(): HorovodError | undefined {
    return this.#failure;
  }

  /** Ends every wait of every member, now and later, with this error. The first error stays. */
  fail(error: HorovodError): void {
    this.#failure ??= error;
    for (const meeting of this.#groups.values()) meeting.failAll(this.#failure);
  }

  /** For MemoryTransport: a new meeting place; member 0 tells its name to the others. */
  create(members: readonly number[]): string {
    const name = `group-${this.#opened++}`;
    this.#groups.set(name, new Meeting(this, members));
    return name;
  }

  enter(name: string, index: number): TransportGroup {
    const meeting = this.#groups.get(name);
    assert(meeting !== undefined, `no group ${name} in this hub`);
    return meeting.enter(index, () => this.#groups.delete(name));
  }
}

export class MemoryTransport implements Transport {
  readonly name = 'memory';
  readonly canBlock: boolean;
  readonly background = 'none';
  readonly #hub: MemoryHub;

  constructor(hub: MemoryHub) {
    this.#hub = hub;
    this.canBlock = hub.ranks === 1;
  }

  async openGroup(spec: GroupSpec): Promise<TransportGroup> {
    const own = spec.index === 0 ? this.#hub.create(spec.members) : undefined;
    // A single member has nobody to tell.
    const name = spec.members.length === 1 ? own : (await spec.exchange(own ?? ''))[0];
    return this.#hub.enter(name ?? '', spec.index);
  }

  adopt(): void {}

  alloc(bytes: number): ArrayBufferLike {
    return new ArrayBuffer(bytes);
  }

  close(): void {}
}

/** The part of a group that its members share: who has posted, and what happens when all have. */
class Meeting {
  readonly members: readonly number[];
  readonly hub: MemoryHub;
  readonly #seats: Array<Seat | undefined>;
  #failure: HorovodError | undefined;
  #open: number;

  constructor(hub: MemoryHub, members: readonly number[]) {
    this.hub = hub;
    this.members = members;
    this.#seats = members.map(() => undefined);
    this.#open = members.length;
  }

  get failure(): HorovodError | undefined {
    return this.#failure ?? this.hub.failure;
  }

  enter(index: number, onEmpty: () => void): Seat {
    assert(this.#seats[index] === undefined, `member ${index} has entered already`);
    const seat = new Seat(this, index, () => {
      this.leave(index);
      this.#open--;
      if (this.#open === 0) onEmpty();
    });
    this.#seats[index] = seat;
    return seat;
  }

  leave(index: number): void {
    const rank = this.members[index] as number;
    const error = new HorovodError(
      'ERR_HVD_SHUT_DOWN',
      `rank ${rank} has closed its group and no longer takes part. ` +
        'Every rank must make the same collective calls before it calls shutdown().',
      { rank },
    );
    this.failAll(error);
  }

  failAll(error: HorovodError): void {
    this.#failure ??= error;
    for (const seat of this.#seats) seat?.failQueue(this.#failure);
  }

  hasPosted(index: number): boolean {
    return this.#seats[index]?.head?.isPosted === true;
  }

  isAnyPosted(): boolean {
    return this.#seats.some((seat) => seat?.head?.isPosted === true);
  }

  /** Would a post of `index` complete its round? Passive members follow at once. */
  isComplete(index: number): boolean {
    return this.#seats.every((seat, other) => other === index || seat?.canPost(true) === true);
  }

  missing(): number[] {
    return this.members.map((_, index) => index).filter((index) => !this.hasPosted(index));
  }

  /** Lets every member post that can, and runs every round that is complete. */
  advance(): void {
    for (;;) {
      for (let hasNew = true; hasNew; ) {
        hasNew = false;
        const isAnyPosted = this.isAnyPosted();
        for (const seat of this.#seats) {
          if (seat?.head?.isPosted === false && seat.canPost(isAnyPosted)) {
            seat.head.isPosted = true;
            seat.head.batch.trace?.mark(stage.posted);
            hasNew = true;
          }
        }
      }
      const entries = this.#seats.flatMap((seat) => (seat?.head?.isPosted === true ? [seat.head] : []));
      if (entries.length < this.members.length) return;
      this.#run(entries);
    }
  }

  #run(entries: readonly QueuedBatch[]): void {
    const rounds = entries.map(({ batch, round }) => batch.rounds[round] as Round);
    const [first] = rounds as [Round, ...Round[]];
    const isAgreed = rounds.every(
      ({ fingerprintLow, fingerprintHigh }) =>
        fingerprintLow === first.fingerprintLow && fingerprintHigh === first.fingerprintHigh,
    );
    if (!isAgreed) {
      for (const seat of this.#seats) seat?.endRound('mismatch');
      return;
    }
    for (const { batch } of entries) batch.trace?.mark(stage.agreed);
    try {
      runTogether(rounds.map(({ operation }): TransportOperation => operation));
    } catch (cause) {
      const label = entries[0]?.batch.label;
      this.hub.fail(
        new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${label} failed: ${String(cause)}`, { cause }),
      );
      return;
    }
    for (const seat of this.#seats) seat?.endRound('done');
  }
}

/** One member's part of a group. */
class Seat implements TransportGroup {
  readonly index: number;
  readonly size: number;
  readonly #meeting: Meeting;
  readonly #onClose: () => void;
  readonly #batches = new BatchQueue();
  /** The deadline of the first batch; those behind it have not begun to wait. */
  #deadline: { entry: QueuedBatch; timer: NodeJS.Timeout } | undefined;
  #isClosed = false;

  constructor(meeting: Meeting, index: number, onClose: () => void) {
    this.#meeting = meeting;
    this.index = index;
    this.size = meeting.members.length;
    this.#onClose = onClose;
  }

  get head(): QueuedBatch | undefined {
    return this.#batches.head;
  }

  canPost(isAnyPosted: boolean): boolean {
    const { head } = this;
    if (head === undefined) return false;
    // In a group of one, nobody else can post first.
    return head.isPosted || isAnyPosted || !head.batch.passive || head.round > 0 || this.size === 1;
  }

  submit(batch: Batch, complete: (outcome: Outcome | HorovodError) => void): Outcome | undefined {
    const entry = this.#batches.add(batch, complete);
    const { failure } = this.#meeting;
    if (failure !== undefined) this.failQueue(failure);
    else this.#meeting.advance();
    const outcome = this.#batches.fetchIfOver(entry);
    if (outcome === undefined) this.#watchHead();
    return outcome;
  }

  runSync(batch: Batch): Outcome {
    const { failure } = this.#meeting;
    if (failure !== undefined) throw failure;
    const hasReason = !batch.passive || this.size === 1 || this.#meeting.isAnyPosted();
    if (!hasReason || !this.#meeting.isComplete(this.index)) throw this.#wouldBlock(batch);
    const entry = this.#batches.addAlone(batch);
    this.#meeting.advance();
    return this.#fetch(entry);
  }

  waitSync(batch: Batch): Outcome {
    return this.#fetch(this.#batches.find(batch));
  }

  takeBack(): Batch[] {
    const taken = this.#batches.takeBack();
    this.#watchHead();
    return taken;
  }

  missing(): number[] {
    return this.#meeting.missing();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#onClose();
  }

  endRound(outcome: Outcome): void {
    const { head } = this;
    assert(head !== undefined);
    head.isPosted = false;
    if (outcome === 'mismatch' || head.round + 1 === head.batch.rounds.length)
      this.#batches.settleHead(outcome);
    else head.round++;
    this.#watchHead();
  }

  failQueue(error: HorovodError): void {
    this.#batches.settleAll(error);
    this.#watchHead();
  }

  #fetch(entry: QueuedBatch): Outcome {
    if (entry.result === undefined) throw this.#wouldBlock(entry.batch);
    return this.#batches.fetch(entry);
  }

  #watchHead(): void {
    const { head } = this;
    if (head !== undefined && head === this.#deadline?.entry) return;
    clearTimeout(this.#deadline?.timer);
    this.#deadline = undefined;
    if (head === undefined) return;
    const maxMs = 2 ** 31 - 1;
    const timer = setTimeout(() => this.#timeOut(head.batch), Math.min(head.batch.timeoutMs, maxMs));
    this.#deadline = { entry: head, timer };
  }

  #timeOut(batch: Batch): void {
    const rankOf = (index: number): number => this.#meeting.members[index] as number;
    const late = this.missing().filter((index) => index !== this.index);
    this.#meeting.hub.fail(timeoutError(batch, rankOf(this.index), late.map(rankOf)));
  }

  #wouldBlock(batch: Batch): HorovodError {
    return new HorovodError(
      'ERR_HVD_WOULD_BLOCK',
      `${batch.label} would block the thread on which ${this.size - 1} other rank(s) of this process run. ` +
        'Use the promise form when several ranks share a process.',
    );
  }
}
