// One running job: starts the ranks of all hosts, passes on their output, stops them all when one fails (unless the job
// is to keep going) or on a signal, and determines the exit code. States: running → ending (a rank failed, or a signal came) → over.

import type { JobView, RankView } from '../observe/status/job-view.ts';
import type { RecordOrder, RecordProgress } from '../observe/timeline/record-order.ts';
import { controlBlockKey } from '../rendezvous/store/keys.ts';
import type { Store } from '../rendezvous/store/store.ts';
import { deferred } from './deferred.ts';
import { FlightRecords } from './failure-report/flight-records.ts';
import { aftermath, failureReport } from './failure-report/report.ts';
import {
  exitCodeOf,
  exitingRank,
  findRootCause,
  isFailure,
  type RankEnd,
} from './failure-report/root-cause.ts';
import { type Foundation, layFoundation, removeFoundation } from './job-parts/foundation.ts';
import { Interruption } from './job-parts/interruption.ts';
import {
  columnsForRank,
  endOf,
  endText,
  lossText,
  outputFinished,
  type RankRecord,
  ranksText,
  recordOf,
  signalRunning,
} from './job-parts/rank-record.ts';
import { defaultGraceMs, noticeMs, within } from './job-parts/within.ts';
import type { JobRequest } from './job-request.ts';
import { type OpenHost, openHosts } from './open-hosts.ts';
import { createOutputDirectories } from './output/rank-output.ts';
import { UncaughtErrors } from './output/uncaught-errors.ts';
import type { RankEnding, StartedRank } from './ranks/host-ranks.ts';
import { progressOfHosts, viewOfHosts } from './ranks/views.ts';
import { StartClock } from './start-clock.ts';

/** How long a rank that another one blames may take to end by itself. */
const blamedMs = 1000;

interface JobParts {
  readonly foundation: Foundation;
  readonly hosts: readonly OpenHost[];
  readonly records: FlightRecords;
}

export class Job {
  readonly #request: JobRequest;
  readonly #foundation: Foundation;
  readonly #hosts: readonly OpenHost[];
  readonly #ranks: RankRecord[] = [];
  readonly #endOrder: RankRecord[] = [];
  readonly #records: FlightRecords;
  readonly #errors = new UncaughtErrors();
  readonly #interruption: Interruption;
  #hasControlBlock = false;
  #isEnding = false;
  /** All ranks have ended, and what is left is to clean up. */
  #isOver = false;
  #cause: RankEnd | undefined;
  #lastView: JobView | undefined;
  #isLookedAt = false;

  private constructor(request: JobRequest, { foundation, hosts, records }: JobParts) {
    this.#request = request;
    this.#interruption = new Interruption(request.say, (signal) => void this.#endAll(signal));
    this.#foundation = foundation;
    this.#hosts = hosts;
    this.#records = records;
  }

  /** Starts everything. Ends by itself; `finish` waits for it. */
  static async start(request: JobRequest): Promise<Job> {
    const { outputDirectory, slots } = request;
    const clock = request.clock ?? new StartClock();
    if (outputDirectory !== undefined) createOutputDirectories(outputDirectory, slots.length);
    const foundation = await layFoundation(request, slots.length);
    try {
      const graceMs = request.graceMs ?? defaultGraceMs;
      const terminalColumns = columnsForRank(request, request.terminalColumns);
      const hosts = await openHosts({
        ...request,
        ...foundation,
        graceMs,
        clock,
        terminalColumns,
      });
      const records = new FlightRecords(request.flightDirectory, foundation.jobId, hosts.length > 1);
      const job = new Job(request, { foundation, hosts, records });
      // The ranks of each host as soon as they have started: unread output is lost when a rank ends.
      await Promise.all(
        hosts.map(async ({ ranks, slots }) => {
          for (const rank of await ranks.start(slots)) job.#adopt(rank);
        }),
      );
      clock.mark('spawn');
      void job.#watchControlBlocks(clock);
      return job;
    } catch (error) {
      await removeFoundation(foundation, request);
      throw error;
    }
  }

  /** The store of the ranks, for use within this process. */
  get store(): Store {
    return this.#foundation.server.store;
  }

  /** After finish(): the rank whose failure came first, and how it ended. */
  get failure(): RankEnd | undefined {
    return this.#cause;
  }

  /** What the ranks are doing. One host knows of all, and one of this machine knows it without asking. */
  look(): JobView | undefined {
    this.#isLookedAt = true;
    const hosts = this.#hosts.map(({ ranks }) => ranks);
    const view = viewOfHosts(hosts, this.#request) ?? this.#lastView;
    this.#lastView = view && { ...view, ranks: view.ranks.map((rank) => this.#asEnded(rank)) };
    return this.#lastView;
  }

  /** What another host says may be older than what is known here. */
  #asEnded(view: RankView): RankView {
    const record = this.#ranks[view.rank];
    if (record?.ending === undefined || view.presence === 'left' || view.presence === 'lost') return view;
    return record.started.testament?.state === 'left'
      ? { ...view, presence: 'left', activity: 'ended' }
      : { ...view, presence: 'lost', activity: 'ended', end: lossText(record, record.ending) };
  }

  /** All ranks record a timeline of the next steps. */
  record(order: RecordOrder): void {
    for (const { ranks } of this.#hosts) ranks.record(order);
  }

  /** As far as rank 0 is on this machine. */
  recordProgress(number: number): RecordProgress {
    return progressOfHosts(
      this.#hosts.map(({ ranks }) => ranks),
      number,
    );
  }

  /** Passes a signal of horovodrun on to every rank, followed by SIGKILL after a while or on the second signal. */
  interrupt(signal: NodeJS.Signals): void {
    if (!this.#isOver) this.#interruption.receive(signal, this.#ranks);
  }

  /** On SIGUSR2, the ranks of this host write their flight records. */
  askForRecords(): void {
    this.#request.say(this.#records.ask());
  }

  /** The terminal has this many columns now. */
  resizeTerminal(columns: number): void {
    const width = columnsForRank(this.#request, columns);
    if (width !== undefined) for (const { ranks } of this.#hosts) ranks.resizeTerminal(width);
  }

  /** Resolves when every process has ended and all output is out: the exit code of horovodrun. */
  async finish(): Promise<number> {
    await Promise.all(this.#ranks.map((rank) => this.#watch(rank)));
    await Promise.all(this.#ranks.map(outputFinished));
    const ends = this.#endOrder.map(endOf);
    this.#isOver = true;
    if (this.#isLookedAt) this.look();
    await Promise.all(this.#hosts.map(({ ranks }) => ranks.close()));
    const { exitCode: interrupted } = this.#interruption;
    const cause = interrupted === undefined ? findRootCause(ends) : undefined;
    const why = cause?.lost === undefined ? undefined : await this.#request.remote?.places?.explainLoss();
    await removeFoundation(this.#foundation, this.#request);
    if (interrupted !== undefined) return interrupted;
    if (cause === undefined) return 0;
    this.#cause = cause;
    const report = [failureReport(cause, ends), ...(why === undefined ? [] : [why])];
    this.#request.say([...report, ...this.#records.pointer()].join('\n'));
    return exitCodeOf(exitingRank(cause, ends).end);
  }

  #adopt(started: StartedRank): void {
    this.#ranks[started.slot.rank] = recordOf(started, this.#request, this.#errors);
  }

  /** Resolves when the rank and everything it left running in its group have ended. */
  async #watch(rank: RankRecord): Promise<void> {
    const ending = await rank.started.ended;
    rank.ending = ending;
    this.#endOrder.push(rank);
    this.#publishEnd(rank, ending);
    if (isFailure(ending.end) && !this.#isEnding) {
      if (this.#request.keepGoing === true) this.#reportLoss(rank);
      else void this.#fail(rank);
    }
    await rank.started.cleared;
  }

  #publishEnd(record: RankRecord, ending: RankEnding): void {
    const { slot, started } = record;
    const { pid, testament } = started;
    const { end } = ending;
    this.#request.explain(endText(record, ending));
    const hasLeft = testament?.state === 'left';
    const loss = {
      how: hasLeft ? 'has shut down' : lossText(record, ending),
      pid,
      host: this.#hosts.length > 1 ? slot.hostname : undefined,
      ...('signal' in end ? { signal: end.signal } : { exitCode: end.code }),
    };
    if (hasLeft) this.#foundation.server.rankLeft(slot.rank, loss);
    else this.#foundation.server.rankLost(slot.rank, loss);
  }

  /** Through the control block of its host, a rank learns how others ended, including those that ended before. */
  async #watchControlBlocks(clock: StartClock): Promise<void> {
    const firsts = this.#hosts.map((host) => {
      const first = deferred();
      void this.#watchControlBlock(host, first.resolve);
      return first.promise;
    });
    await Promise.all(firsts);
    clock.mark('rendezvous');
    this.#request.explain(`all hosts are connected; ${clock.describe()}`);
  }

  async #watchControlBlock({ ranks, slots }: OpenHost, onFirst: () => void): Promise<void> {
    const leader = slots[0]?.rank ?? 0;
    // Every init() after a shutdown() makes a new one; the latest counts.
    for (let generation = 1; ; generation++) {
      let path: string;
      try {
        path = await this.#foundation.server.store.get(controlBlockKey(generation, leader));
      } catch {
        return; // Never published: the command does not call init(), or the job is over.
      }
      ranks.useControlBlock(path);
      this.#hasControlBlock = true;
      onFirst();
    }
  }

  /** With --keep-going. */
  #reportLoss(failed: RankRecord): void {
    const others = this.#ranks.length - this.#endOrder.length;
    const rest = others === 0 ? '' : `; the other ${ranksText(others)} keep${others === 1 ? 's' : ''} going`;
    this.#request.say(`${aftermath(endOf(failed))}${rest}.`);
  }

  async #fail(first: RankRecord): Promise<void> {
    this.#isEnding = true;
    const { say } = this.#request;
    const description = endOf(first);
    const others = this.#ranks.length - this.#endOrder.length;
    say(`${aftermath(description)}${others === 0 ? '.' : `; stopping the other ${ranksText(others)}.`}`);
    const blamed = this.#ranks[description.blamed ?? -1];
    // A wrapper (a shell, npx) ends after the command it wraps; a signal from us would hide its exit code.
    if (blamed !== undefined && blamed.ending === undefined) await within(blamed.started.ended, blamedMs);
    // Connected ranks notice the failure themselves, and may have something to print or to save.
    if (this.#hasControlBlock) await within(this.#allEnded(), noticeMs);
    await this.#endAll('SIGTERM');
  }

  #allEnded(): Promise<unknown> {
    return Promise.all(this.#ranks.map(({ started }) => started.ended));
  }

  async #endAll(signal: NodeJS.Signals): Promise<void> {
    this.#isEnding = true;
    signalRunning(this.#ranks, signal);
    await within(this.#allEnded(), this.#request.graceMs ?? defaultGraceMs);
    signalRunning(this.#ranks, 'SIGKILL');
  }
}
