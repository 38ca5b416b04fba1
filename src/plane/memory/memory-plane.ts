// The in-memory plane: several ranks in one process on one event loop, for tests, and the one rank of a job
// without launcher. A round runs at the moment its last member posts, for all members at once.
//
// A member's job is in one of these states: queued → posted → (next round) queued → … → settled.

import assert from 'node:assert';
import { runTogether } from '../../collectives/reference.ts';
import { HorovodError } from '../../errors.ts';
import { JobQueue, type QueuedJob } from '../job-queue.ts';
import type { DataPlane, GroupSpec, Job, Outcome, PlaneGroup, PlaneOperation, Round } from '../plane.ts';
import { stage } from '../trace.ts';
import { timeoutError } from '../wait-errors.ts';

/** Where the ranks of one process meet. */
export class MemoryHub {
  readonly ranks: number;
  readonly #groups = new Map<string, Meeting>();
  #failure: HorovodError | undefined;
  #opened = 0;

  constructor(ranks: number) {
    this.ranks = ranks;
  }

  plane(rank: number): MemoryPlane {
    assert(rank >= 0 && rank < this.ranks);
    return new MemoryPlane(this);
  }

  get failure(): HorovodError | undefined {
    return this.#failure;
  }

  /** Every wait of every member, now and later, ends with this error. The first one stays. */
  fail(error: HorovodError): void {
    this.#failure ??= error;
    for (const meeting of this.#groups.values()) meeting.failAll(this.#failure);
  }

  /** For MemoryPlane: a new meeting place, by the name that member 0 tells the others. */
  create(members: readonly number[]): string {
    const name = `group-${this.#opened++}`;
    this.#groups.set(name, new Meeting(this, members));
    return name;
  }

  enter(name: string, index: number): PlaneGroup {
    const meeting = this.#groups.get(name);
    assert(meeting !== undefined, `no group ${name} in this hub`);
    return meeting.enter(index, () => this.#groups.delete(name));
  }
}

export class MemoryPlane implements DataPlane {
  readonly name = 'memory';
  readonly canBlock: boolean;
  readonly background = 'none';
  readonly #hub: MemoryHub;

  constructor(hub: MemoryHub) {
    this.#hub = hub;
    this.canBlock = hub.ranks === 1;
  }

  async openGroup(spec: GroupSpec): Promise<PlaneGroup> {
    const own = spec.index === 0 ? this.#hub.create(spec.members) : undefined;
    // Alone there is nobody to tell.
    const name = spec.members.length === 1 ? own : (await spec.exchange(own ?? ''))[0];
    return this.#hub.enter(name ?? '', spec.index);
  }

  adopt(): void {}

  alloc(bytes: number): ArrayBufferLike {
    return new ArrayBuffer(bytes);
  }

  close(): void {}
}

/** The shared half of a group: who has posted, and what happens when all have. */
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
      `rank ${rank} has closed its group and takes part in nothing any more. ` +
        'Every rank has to make the same collective calls before it calls shutdown().',
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

  /** Lets everybody post who can, and runs every round that is complete. */
  advance(): void {
    for (;;) {
      for (let hasNew = true; hasNew; ) {
        hasNew = false;
        const isAnyPosted = this.isAnyPosted();
        for (const seat of this.#seats) {
          if (seat?.head?.isPosted === false && seat.canPost(isAnyPosted)) {
            seat.head.isPosted = true;
            seat.head.job.trace?.mark(stage.posted);
            hasNew = true;
          }
        }
      }
      const entries = this.#seats.flatMap((seat) => (seat?.head?.isPosted === true ? [seat.head] : []));
      if (entries.length < this.members.length) return;
      this.#run(entries);
    }
  }

  #run(entries: readonly QueuedJob[]): void {
    const rounds = entries.map(({ job, round }) => job.rounds[round] as Round);
    const [first] = rounds as [Round, ...Round[]];
    const isAgreed = rounds.every(
      ({ fingerprintLow, fingerprintHigh }) =>
        fingerprintLow === first.fingerprintLow && fingerprintHigh === first.fingerprintHigh,
    );
    if (!isAgreed) {
      for (const seat of this.#seats) seat?.endRound('mismatch');
      return;
    }
    for (const { job } of entries) job.trace?.mark(stage.agreed);
    try {
      runTogether(rounds.map(({ operation }): PlaneOperation => operation));
    } catch (cause) {
      const label = entries[0]?.job.label;
      this.hub.fail(
        new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${label} could not run: ${String(cause)}`, { cause }),
      );
      return;
    }
    for (const seat of this.#seats) seat?.endRound('done');
  }
}

/** One member's half of a group. */
class Seat implements PlaneGroup {
  readonly index: number;
  readonly size: number;
  readonly #meeting: Meeting;
  readonly #onClose: () => void;
  readonly #jobs = new JobQueue();
  /** The deadline of the job in front; those behind it have not begun to wait. */
  #deadline: { entry: QueuedJob; timer: NodeJS.Timeout } | undefined;
  #isClosed = false;

  constructor(meeting: Meeting, index: number, onClose: () => void) {
    this.#meeting = meeting;
    this.index = index;
    this.size = meeting.members.length;
    this.#onClose = onClose;
  }

  get head(): QueuedJob | undefined {
    return this.#jobs.head;
  }

  canPost(isAnyPosted: boolean): boolean {
    const { head } = this;
    if (head === undefined) return false;
    // Alone nobody else can ever post first.
    return head.isPosted || isAnyPosted || !head.job.passive || head.round > 0 || this.size === 1;
  }

  submit(job: Job, complete: (outcome: Outcome | HorovodError) => void): Outcome | undefined {
    const entry = this.#jobs.add(job, complete);
    const { failure } = this.#meeting;
    if (failure !== undefined) this.failQueue(failure);
    else this.#meeting.advance();
    const { result } = entry;
    if (result === 'done' || result === 'mismatch') return this.#jobs.fetch(entry);
    this.#watchHead();
    return undefined;
  }

  runSync(job: Job): Outcome {
    assert(this.#jobs.length === 0, 'runSync() while another job of the group is queued');
    const { failure } = this.#meeting;
    if (failure !== undefined) throw failure;
    const hasReason = !job.passive || this.size === 1 || this.#meeting.isAnyPosted();
    if (!hasReason || !this.#meeting.isComplete(this.index)) throw this.#wouldBlock(job);
    const entry = this.#jobs.add(job, () => {});
    this.#meeting.advance();
    return this.#fetch(entry);
  }

  waitSync(job: Job): Outcome {
    const entry = this.#jobs.find(job);
    assert(entry !== undefined, `waitSync() for ${job.label}, which is not under way`);
    return this.#fetch(entry);
  }

  takeBack(): Job[] {
    const taken = this.#jobs.takeBack();
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
    if (outcome === 'mismatch' || head.round + 1 === head.job.rounds.length) this.#jobs.settleHead(outcome);
    else head.round++;
    this.#watchHead();
  }

  failQueue(error: HorovodError): void {
    this.#jobs.settleAll(error);
    this.#watchHead();
  }

  #fetch(entry: QueuedJob): Outcome {
    if (entry.result === undefined) throw this.#wouldBlock(entry.job);
    return this.#jobs.fetch(entry);
  }

  #watchHead(): void {
    const { head } = this;
    if (head !== undefined && head === this.#deadline?.entry) return;
    clearTimeout(this.#deadline?.timer);
    this.#deadline = undefined;
    if (head === undefined) return;
    const longest = 2 ** 31 - 1;
    const timer = setTimeout(() => this.#timeOut(head.job), Math.min(head.job.timeoutMs, longest));
    this.#deadline = { entry: head, timer };
  }

  #timeOut(job: Job): void {
    const rankOf = (index: number): number => this.#meeting.members[index] as number;
    const late = this.missing().filter((index) => index !== this.index);
    this.#meeting.hub.fail(timeoutError(job, rankOf(this.index), late.map(rankOf)));
  }

  #wouldBlock(job: Job): HorovodError {
    return new HorovodError(
      'ERR_HVD_WOULD_BLOCK',
      `${job.label} would block the thread that ${this.size - 1} other rank(s) of this process run on. ` +
        'Use the promise form where several ranks share a process.',
    );
  }
}
