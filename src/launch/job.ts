// One running job: starts the ranks of all hosts, carries their output, ends them all when one fails or when told to,
// and says in the end what the exit code is. States: running → ending (a rank failed, or a signal came) → over.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeEnd } from '../control/control-block.ts';
import { signalNumber } from '../control/process-status.ts';
import { controlBlockKey } from '../rendezvous/store/keys.ts';
import type { Store } from '../rendezvous/store/store.ts';
import { TcpStoreServer } from '../rendezvous/store/tcp-store-server.ts';
import type { ForwardingRules } from '../settings/environment.ts';
import { JobSecret } from '../settings/job-secret.ts';
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
import { openHosts, type RemoteHostsRequest } from './open-hosts.ts';
import type { ConsoleWriter } from './output/console-writer.ts';
import { createOutputDirectories, RankOutput, type RankOutputOptions } from './output/rank-output.ts';
import type { HostRanks, RankEnding, StartedRank } from './ranks/host-ranks.ts';
import { Guardian } from './spawn/guardian.ts';
import type { CorePinning } from './spawn/pin-cores.ts';
import type { RankCommand } from './spawn/rank-process.ts';
import { StartClock } from './start-clock.ts';

export interface JobRequest {
  readonly slots: readonly Slot[];
  /** As the user gave it; a script alone is run with this Node, on each host with its own. */
  readonly command: RankCommand;
  readonly driverEnvironment: NodeJS.ProcessEnv;
  /** Which variables of it go to the ranks. */
  readonly forwarding?: ForwardingRules | undefined;
  /** Variables that flags and config file set. */
  readonly environment: Readonly<Record<string, string>>;
  /** Of this machine. */
  readonly corePinning?: CorePinning | undefined;
  /** CUDA_VISIBLE_DEVICES for each local rank of this machine. */
  readonly gpus?: readonly string[] | undefined;
  /** Which hosts are other machines, and how they are reached; undefined: none is. */
  readonly remote?: RemoteHostsRequest | undefined;
  readonly prefix: RankOutputOptions['prefix'];
  readonly outputDirectory: string | undefined;
  readonly stdout: ConsoleWriter;
  readonly stderr: ConsoleWriter;
  /** A remark of the launcher itself, one or more lines. */
  readonly say: (text: string) => void;
  readonly explain: (text: string) => void;
  /** Between a polite signal and SIGKILL. */
  readonly graceMs?: number;
  /** HOROVOD_FLIGHT_DIR. */
  readonly flightDirectory?: string | undefined;
  /** Has been running since horovodrun began; for --verbose. */
  readonly clock?: StartClock | undefined;
}

const usualGraceMs = 5000;
/** How long an output stream may stay open after its rank, when another process holds it. */
const quietOutputMs = 1000;
/** How long a rank that another one blames may take to end by itself, before it is ended. */
const blamedMs = 1000;
/** So long ranks may go on after another one has failed, until they are told to end. */
const hearMs = 1000;

interface RankRecord {
  readonly slot: Slot;
  readonly started: StartedRank;
  readonly outputs: { readonly stdout: RankOutput; readonly stderr: RankOutput };
  ending?: RankEnding;
  endedBy?: NodeJS.Signals;
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

  private constructor(
    request: JobRequest,
    server: TcpStoreServer,
    guardian: Guardian,
    hosts: readonly HostRanks[],
    records: FlightRecords,
  ) {
    this.#records = records;
    this.#request = request;
    this.#server = server;
    this.#guardian = guardian;
    this.#hosts = hosts;
  }

  /** Starts everything. Ends by itself; `finish` waits for it. */
  static async start(request: JobRequest): Promise<Job> {
    const { outputDirectory, slots, driverEnvironment, remote, explain } = request;
    const clock = request.clock ?? new StartClock();
    if (outputDirectory !== undefined) createOutputDirectories(outputDirectory, slots.length);
    const identity = { secret: JobSecret.generate(), jobId: randomBytes(8).toString('hex') };
    const guardian = Guardian.start(identity.jobId, driverEnvironment['PATH']);
    let server: TcpStoreServer | undefined;
    try {
      server = await TcpStoreServer.start({
        ...{ ...identity, ranks: slots.length, listenOn: remote === undefined ? 'loopback' : 'all' },
        ...(remote?.networkInterfaces === undefined ? {} : { networkInterfaces: remote.networkInterfaces }),
      });
      explain(`job ${identity.jobId}: ${slots.length} ranks, rendezvous at ${server.address}`);
      const graceMs = request.graceMs ?? usualGraceMs;
      const hosts = await openHosts({ ...request, ...identity, graceMs, guardian, server, clock });
      const records = new FlightRecords(request.flightDirectory, identity.jobId, hosts.length > 1);
      const job = new Job(request, server, guardian, hosts, records);
      // Each host's ranks as soon as they are there: output that nobody reads is lost when the rank ends.
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

  /** What the ranks see, for use within this process. */
  get store(): Store {
    return this.#server.store;
  }

  /** After finish(): the rank whose failure came first. */
  get failedRank(): number | undefined {
    return this.#failedRank;
  }

  /** A signal to horovodrun: every rank gets it, and SIGKILL after a while, or at the second signal. */
  interrupt(signal: NodeJS.Signals): void {
    if (this.#interruption !== undefined) {
      this.#signalRunning('SIGKILL');
      return;
    }
    this.#interruption = signal;
    this.#request.say(`${signal}: ending ${this.#ranks.length} rank(s).`);
    // SIGPIPE is about our own output, and Node ignores it.
    void this.#endAll(signal === 'SIGPIPE' ? 'SIGTERM' : signal);
  }

  /** SIGUSR2 to horovodrun: the ranks of this host write their flight records. */
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

  /** Until the rank and whatever it left running in its group have ended. */
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
      ...{ pid, host: this.#hosts.length > 1 ? slot.hostname : undefined },
      ...('signal' in end ? { signal: end.signal } : { exitCode: end.code }),
    };
    if (hasLeft) this.#server.rankLeft(slot.rank, loss);
    else this.#server.rankLost(slot.rank, loss);
  }

  /** When a host has a control block, its ranks learn from it how others ended: also those that ended before. */
  async #watchControlBlocks(clock: StartClock): Promise<void> {
    const firsts = this.#hosts.map((host) => {
      const { promise, resolve } = promiseWithResolver();
      void this.#watchControlBlock(host, resolve);
      return promise;
    });
    await Promise.all(firsts);
    clock.mark('rendezvous');
    this.#request.explain(`all hosts have come together; ${clock.describe()}`);
  }

  async #watchControlBlock(host: HostRanks, onFirst: () => void): Promise<void> {
    const leader = host.slots[0]?.rank ?? 0;
    // A new one with every init() after a shutdown(); the latest counts.
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
    say(`${who(description)} ${how(description)}${others === 0 ? '.' : `; ending the other ${others}.`}`);
    const blamed = this.#ranks[description.blamed ?? -1];
    // A wrapper (a shell, npx) ends after what it wraps: with a signal from us it would end for a wrong reason.
    if (blamed !== undefined && blamed.ending === undefined) await within(blamed.started.ended, blamedMs);
    // Ranks of one job hear of the death by themselves, and may have something to say or to save.
    if (this.#hasControlBlock) await within(this.#allEnded(), hearMs);
    await this.#endAll('SIGTERM');
  }

  #allEnded(): Promise<unknown> {
    return Promise.all(this.#ranks.map(({ started }) => started.ended));
  }

  async #endAll(signal: NodeJS.Signals): Promise<void> {
    this.#isEnding = true;
    this.#signalRunning(signal);
    await within(this.#allEnded(), this.#request.graceMs ?? usualGraceMs);
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
      ...{ rank: slot.rank, hostname: slot.hostname, pid: started.pid, ...ending, endedBy, lastWords },
      blamed: blamedRank(slot.rank, lastWords, failure),
      recorded: failure?.message,
      stderrTail: outputs.stderr.tail,
    };
  }
}

function promiseWithResolver(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

/** Waits for it, but not longer. */
async function within(promise: Promise<unknown>, ms: number): Promise<void> {
  const timer = new AbortController();
  const patience = sleep(ms, undefined, { signal: timer.signal }).catch(() => undefined);
  await Promise.race([promise, patience]);
  timer.abort();
}
