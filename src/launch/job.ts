// One running job: starts the ranks of all hosts, passes on their output, stops them all when one fails or on a signal,
// and determines the exit code. States: running → ending (a rank failed, or a signal came) → over.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeEnd } from '../control/control-block.ts';
import { signalNumber } from '../control/process-status.ts';
import { controlBlockKey } from '../rendezvous/store/keys.ts';
import type { Store } from '../rendezvous/store/store.ts';
import { TcpStoreServer } from '../rendezvous/store/tcp-store-server.ts';
import { JobSecret } from '../settings/job-secret.ts';
import { deferred } from './deferred.ts';
import { FlightRecords } from './failure-report/flight-records.ts';
import { failureReport, how, who } from './failure-report/report.ts';
import {
  blamedRank,
  exitCodeOf,
  findRootCause,
  isFailure,
  type RankEnd,
} from './failure-report/root-cause.ts';
import type { Slot } from './hosts/plan-slots.ts';
import type { JobRequest } from './job-request.ts';
import { openHosts } from './open-hosts.ts';
import { createOutputDirectories, RankOutput } from './output/rank-output.ts';
import type { HostRanks, RankEnding, StartedRank } from './ranks/host-ranks.ts';
import { Guardian } from './spawn/guardian.ts';
import { StartClock } from './start-clock.ts';

const defaultGraceMs = 5000;
/** How long an output stream may stay open after its rank, when another process holds it. */
const quietOutputMs = 1000;
/** How long a rank that another one blames may take to end by itself. */
const blamedMs = 1000;
/** How long ranks may go on after another one has failed, before they are stopped. */
const noticeMs = 1000;

interface RankRecord {
  readonly slot: Slot;
  readonly started: StartedRank;
  readonly outputs: { readonly stdout: RankOutput; readonly stderr: RankOutput };
  ending?: RankEnding;
  endedBy?: NodeJS.Signals;
}

interface JobParts {
  readonly server: TcpStoreServer;
  readonly guardian: Guardian;
  readonly hosts: readonly HostRanks[];
  readonly records: FlightRecords;
}

export class Job {
  readonly #request: JobRequest;
  readonly #server: TcpStoreServer;
  readonly #guardian: Guardian;
  readonly #hosts: readonly HostRanks[];
  readonly #ranks: RankRecord[] = [];
  readonly #endOrder: RankRecord[] = [];
  readonly #records: FlightRecords;
  #hasControlBlock = false;
  #interruption: NodeJS.Signals | undefined;
  #isEnding = false;
  #failedRank: number | undefined;

  private constructor(request: JobRequest, { server, guardian, hosts, records }: JobParts) {
    this.#request = request;
    this.#server = server;
    this.#guardian = guardian;
    this.#hosts = hosts;
    this.#records = records;
  }

  /** Starts everything. Ends by itself; `finish` waits for it. */
  static async start(request: JobRequest): Promise<Job> {
    const { outputDirectory, slots, driverEnvironment, remote, explain } = request;
    const clock = request.clock ?? new StartClock();
    const interfaces = remote?.settings.networkInterfaces;
    if (outputDirectory !== undefined) createOutputDirectories(outputDirectory, slots.length);
    const identity = { secret: JobSecret.generate(), jobId: randomBytes(8).toString('hex') };
    const guardian = Guardian.start(identity.jobId, driverEnvironment['PATH']);
    let server: TcpStoreServer | undefined;
    try {
      server = await TcpStoreServer.start({
        ...identity,
        ranks: slots.length,
        listenOn: remote === undefined ? 'loopback' : 'all',
        ...(interfaces === undefined ? {} : { networkInterfaces: interfaces }),
      });
      explain(`job ${identity.jobId}: ${ranksText(slots.length)}, rendezvous at ${server.address}`);
      const graceMs = request.graceMs ?? defaultGraceMs;
      const hosts = await openHosts({ ...request, ...identity, graceMs, guardian, server, clock });
      const records = new FlightRecords(request.flightDirectory, identity.jobId, hosts.length > 1);
      const job = new Job(request, { server, guardian, hosts, records });
      // The ranks of each host as soon as they have started: unread output is lost when a rank ends.
      await Promise.all(
        hosts.map(async (host) => {
          for (const rank of await host.start()) job.#adopt(rank);
        }),
      );
      clock.mark('spawn');
      void job.#watchControlBlocks(clock);
      return job;
    } catch (error) {
      await Promise.all([server?.close(), guardian.dismiss()]);
      throw error;
    }
  }

  /** The store of the ranks, for use within this process. */
  get store(): Store {
    return this.#server.store;
  }

  /** After finish(): the rank whose failure came first. */
  get failedRank(): number | undefined {
    return this.#failedRank;
  }

  /** Passes a signal of horovodrun on to every rank, followed by SIGKILL after a while or on the second signal. */
  interrupt(signal: NodeJS.Signals): void {
    if (this.#interruption !== undefined) {
      this.#signalRunning('SIGKILL');
      return;
    }
    this.#interruption = signal;
    this.#request.say(`received ${signal}; stopping ${ranksText(this.#ranks.length)}.`);
    // SIGPIPE is about our own output, and Node ignores it.
    void this.#endAll(signal === 'SIGPIPE' ? 'SIGTERM' : signal);
  }

  /** On SIGUSR2, the ranks of this host write their flight records. */
  askForRecords(): void {
    this.#request.say(this.#records.ask());
  }

  /** Resolves when every process has ended and all output is out: the exit code of horovodrun. */
  async finish(): Promise<number> {
    await Promise.all(this.#ranks.map((rank) => this.#watch(rank)));
    await Promise.all(
      this.#ranks.flatMap(({ started, outputs: { stdout, stderr } }) =>
        [stdout, stderr].map((output) =>
          started.endsItsStreams ? output.finished : output.finishWithin(quietOutputMs),
        ),
      ),
    );
    const ends = this.#endOrder.map((rank) => this.#describe(rank));
    await Promise.all(this.#hosts.map((host) => host.close()));
    await Promise.all([this.#server.close(), this.#guardian.dismiss()]);
    if (this.#interruption !== undefined) return 128 + signalNumber(this.#interruption);
    const cause = findRootCause(ends);
    if (cause === undefined) return 0;
    this.#failedRank = cause.rank;
    this.#request.say([failureReport(cause, ends), ...this.#records.pointer()].join('\n'));
    return exitCodeOf(cause.end);
  }

  #adopt(started: StartedRank): void {
    const { prefix, outputDirectory, say } = this.#request;
    const { slot } = started;
    const options = { rank: slot.rank, prefix, directory: outputDirectory, size: slot.size, notice: say };
    const outputs = {
      stdout: new RankOutput(started.stdout, this.#request.stdout, { ...options, name: 'stdout' }),
      stderr: new RankOutput(started.stderr, this.#request.stderr, { ...options, name: 'stderr' }),
    };
    this.#ranks[slot.rank] = { slot, started, outputs };
  }

  /** Resolves when the rank and everything it left running in its group have ended. */
  async #watch(rank: RankRecord): Promise<void> {
    const ending = await rank.started.ended;
    rank.ending = ending;
    this.#endOrder.push(rank);
    this.#publishEnd(rank, ending);
    if (isFailure(ending.end) && !this.#isEnding) void this.#fail(rank);
    await rank.started.cleared;
  }

  #publishEnd({ slot, started }: RankRecord, { end, spawnError, lost }: RankEnding): void {
    const { pid, testament } = started;
    this.#request.explain(`${who({ ...slot, pid })} ${how({ end, spawnError, lost })}`);
    const hasLeft = testament?.state === 'left';
    const loss = {
      how: hasLeft
        ? 'has shut down'
        : lost === undefined
          ? describeEnd(end, testament?.state === 'attached')
          : `was lost with ${slot.hostname}: ${lost},`,
      pid,
      host: this.#hosts.length > 1 ? slot.hostname : undefined,
      ...('signal' in end ? { signal: end.signal } : { exitCode: end.code }),
    };
    if (hasLeft) this.#server.rankLeft(slot.rank, loss);
    else this.#server.rankLost(slot.rank, loss);
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

  async #watchControlBlock(host: HostRanks, onFirst: () => void): Promise<void> {
    const leader = host.slots[0]?.rank ?? 0;
    // Every init() after a shutdown() makes a new one; the latest counts.
    for (let generation = 1; ; generation++) {
      let path: string;
      try {
        path = await this.#server.store.get(controlBlockKey(generation, leader));
      } catch {
        return; // Never published: the command does not call init(), or the job is over.
      }
      host.useControlBlock(path);
      this.#hasControlBlock = true;
      onFirst();
    }
  }

  async #fail(first: RankRecord): Promise<void> {
    this.#isEnding = true;
    const { say } = this.#request;
    const description = this.#describe(first);
    const others = this.#ranks.length - this.#endOrder.length;
    say(
      `${who(description)} ${how(description)}${others === 0 ? '.' : `; stopping the other ${ranksText(others)}.`}`,
    );
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
    this.#signalRunning(signal);
    await within(this.#allEnded(), this.#request.graceMs ?? defaultGraceMs);
    this.#signalRunning('SIGKILL');
  }

  #signalRunning(signal: NodeJS.Signals): void {
    for (const rank of this.#ranks) {
      if (rank.ending !== undefined || rank.started.pid === undefined) continue;
      rank.endedBy = signal;
      rank.started.signal(signal);
    }
  }

  #describe({ slot, started, ending = { end: { code: 0 } }, endedBy, outputs }: RankRecord): RankEnd {
    const { lastWords, failure } = started.testament ?? {};
    return {
      rank: slot.rank,
      hostname: slot.hostname,
      pid: started.pid,
      ...ending,
      endedBy,
      lastWords,
      blamed: blamedRank(slot.rank, lastWords, failure),
      recorded: failure?.message,
      stderrTail: outputs.stderr.tail,
    };
  }
}

/** '1 rank', '4 ranks' */
function ranksText(count: number): string {
  return `${count} rank${count === 1 ? '' : 's'}`;
}

/** Waits for the promise, but not longer than `ms`. */
async function within(promise: Promise<unknown>, ms: number): Promise<void> {
  const timer = new AbortController();
  const patience = sleep(ms, undefined, { signal: timer.signal }).catch(() => undefined);
  await Promise.race([promise, patience]);
  timer.abort();
}
