// One running job: starts the ranks, carries their output, ends them all when one fails or when told to, and
// says in the end what the exit code is. States: running → ending (a rank failed, or a signal came) → over.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ControlBlock, describeEnd } from '../plane/control-block.ts';
import { type ProcessEnd, signalNumber } from '../plane/process-status.ts';
import { JobSecret } from '../rendezvous/job-secret.ts';
import { controlBlockKey } from '../rendezvous/keys.ts';
import { TcpStoreServer } from '../rendezvous/tcp-store-server.ts';
import { rankEnvironment } from '../settings/environment.ts';
import { failureReport, how, who } from './failure-report/report.ts';
import {
  blamedRank,
  exitCodeOf,
  findRootCause,
  isFailure,
  type RankEnd,
} from './failure-report/root-cause.ts';
import type { Slot } from './hosts/plan-slots.ts';
import type { ConsoleWriter } from './output/console-writer.ts';
import { createOutputDirectories, RankOutput, type RankOutputOptions } from './output/rank-output.ts';
import { Guardian } from './spawn/guardian.ts';
import type { CorePinning } from './spawn/pin-cores.ts';
import { type RankCommand, RankProcess } from './spawn/rank-process.ts';

export interface JobRequest {
  readonly slots: readonly Slot[];
  readonly command: RankCommand;
  readonly driverEnvironment: NodeJS.ProcessEnv;
  /** Variables that flags and config file set. */
  readonly environment: Readonly<Record<string, string>>;
  readonly corePinning?: CorePinning | undefined;
  /** CUDA_VISIBLE_DEVICES for each local rank. */
  readonly gpus?: readonly string[] | undefined;
  readonly prefix: RankOutputOptions['prefix'];
  readonly outputDirectory: string | undefined;
  readonly stdout: ConsoleWriter;
  readonly stderr: ConsoleWriter;
  /** A remark of the launcher itself, one or more lines. */
  readonly say: (text: string) => void;
  readonly explain: (text: string) => void;
  /** Between a polite signal and SIGKILL. */
  readonly graceMs?: number;
}

/** How long an output stream may stay open after its rank, when another process holds it. */
const quietOutputMs = 1000;
/** How long a rank that another one blames may take to end by itself, before it is ended. */
const blamedMs = 1000;
/** So long ranks may go on after another one has failed, until they are told to end. */
const hearMs = 1000;

interface RankRecord {
  readonly slot: Slot;
  readonly process: RankProcess;
  readonly outputs: { readonly stdout: RankOutput; readonly stderr: RankOutput };
  end?: ProcessEnd;
  endedBy?: NodeJS.Signals;
}

export class Job {
  readonly #request: JobRequest;
  readonly #server: TcpStoreServer;
  readonly #guardian: Guardian;
  readonly #ranks: RankRecord[] = [];
  readonly #endOrder: RankRecord[] = [];
  #controlBlock: ControlBlock | undefined;
  #interruption: NodeJS.Signals | undefined;
  #isEnding = false;

  private constructor(request: JobRequest, server: TcpStoreServer, guardian: Guardian) {
    this.#request = request;
    this.#server = server;
    this.#guardian = guardian;
  }

  /** Starts everything. Ends by itself; `finish` waits for it. */
  static async start(request: JobRequest): Promise<Job> {
    const { outputDirectory, slots } = request;
    if (outputDirectory !== undefined) createOutputDirectories(outputDirectory, slots.length);
    const identity = { secret: JobSecret.generate(), jobId: randomBytes(8).toString('hex') };
    const server = await TcpStoreServer.start({ ...identity, ranks: slots.length });
    const guardian = Guardian.start(identity.jobId, request.driverEnvironment['PATH']);
    const job = new Job(request, server, guardian);
    request.explain(`job ${identity.jobId}: ${slots.length} ranks, rendezvous at ${server.address}`);
    for (const slot of slots) job.#startRank(slot, identity);
    void job.#watchControlBlock();
    return job;
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

  /** Resolves when every process has ended and all output is out: the exit code of horovodrun. */
  async finish(): Promise<number> {
    await Promise.all(this.#ranks.map((rank) => this.#watch(rank)));
    await Promise.all(
      this.#ranks.flatMap(({ outputs: { stdout, stderr } }) => [
        stdout.finishWithin(quietOutputMs),
        stderr.finishWithin(quietOutputMs),
      ]),
    );
    const ends = this.#endOrder.map((rank) => this.#describe(rank));
    this.#controlBlock?.close();
    await Promise.all([this.#server.close(), this.#guardian.dismiss()]);
    if (this.#interruption !== undefined) return 128 + signalNumber(this.#interruption);
    const cause = findRootCause(ends);
    if (cause === undefined) return 0;
    this.#request.say(failureReport(cause, ends));
    return exitCodeOf(cause.end);
  }

  #startRank(slot: Slot, identity: { secret: JobSecret; jobId: string }): void {
    const { command, driverEnvironment, environment, prefix, outputDirectory, say } = this.#request;
    const { corePinning, gpus } = this.#request;
    const about = { rendezvousAddress: this.#server.address, localCores: corePinning?.coreCount };
    const env = rankEnvironment(driverEnvironment, environment, { ...slot, ...identity, ...about });
    if (gpus !== undefined) env['CUDA_VISIBLE_DEVICES'] = gpus[slot.localRank];
    const start = () => new RankProcess(slot.rank, command, env);
    const process = corePinning === undefined ? start() : corePinning.around(slot.localRank, start);
    // At once, so that the moment in which a killed launcher would leave this rank behind is as short as can be.
    if (process.pid !== undefined) this.#guardian.add(process.pid);
    const options = { rank: slot.rank, prefix, directory: outputDirectory, size: slot.size, notice: say };
    const outputs = {
      stdout: new RankOutput(process.stdout, this.#request.stdout, { ...options, name: 'stdout' }),
      stderr: new RankOutput(process.stderr, this.#request.stderr, { ...options, name: 'stderr' }),
    };
    this.#ranks.push({ slot, process, outputs });
    this.#request.explain(
      `rank ${slot.rank} on ${slot.hostname} (pid ${process.pid ?? 'none'}` +
        `${corePinning === undefined ? '' : `, core(s) ${corePinning.describe(slot.localRank)}`}` +
        `${gpus === undefined ? '' : `, GPU ${gpus[slot.localRank]}`}): ${[command.file, ...command.args].join(' ')}`,
    );
  }

  /** Until the rank and whatever it left running in its group have ended. */
  async #watch(rank: RankRecord): Promise<void> {
    rank.end = await rank.process.ended;
    this.#endOrder.push(rank);
    this.#publishEnd(rank);
    if (isFailure(rank.end) && !this.#isEnding) void this.#fail(rank);
    await this.#endGroup(rank.process);
    if (rank.process.pid !== undefined) this.#guardian.remove(rank.process.pid);
  }

  #publishEnd(rank: RankRecord): void {
    const { slot, process, end = { code: 0 } } = rank;
    this.#request.explain(`${who({ ...slot, pid: process.pid })} ${how({ end })}`);
    this.#controlBlock?.recordExit(slot.rank, end);
    const hasLeft = this.#controlBlock?.state(slot.rank) === 'left';
    const loss = {
      how: hasLeft ? 'has shut down' : describeEnd(end, this.#controlBlock?.state(slot.rank) === 'attached'),
      pid: process.pid,
      ...('signal' in end ? { signal: end.signal } : { exitCode: end.code }),
    };
    if (hasLeft) this.#server.rankLeft(slot.rank, loss);
    else this.#server.rankLost(slot.rank, loss);
  }

  /** When the ranks have a control block, they learn from it how others ended: also those that ended before. */
  async #watchControlBlock(): Promise<void> {
    // A new one with every init() after a shutdown(); the latest counts.
    for (let generation = 1; ; generation++) {
      try {
        const path = await this.#server.store.get(controlBlockKey(generation));
        const opened = ControlBlock.open(path);
        this.#controlBlock?.close();
        this.#controlBlock = opened;
        this.#request.explain(`control block at ${path}`);
        for (const { slot, end } of this.#endOrder) if (end !== undefined) opened.recordExit(slot.rank, end);
      } catch {
        // Never published (the command does not call init), or its owner is gone already: exits tell enough.
        return;
      }
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
    if (blamed !== undefined && blamed.end === undefined) await within(blamed.process.ended, blamedMs);
    // Ranks of one job hear of the death by themselves, and may have something to say or to save.
    if (this.#controlBlock !== undefined) await within(this.#allEnded(), hearMs);
    await this.#endAll('SIGTERM');
  }

  #allEnded(): Promise<unknown> {
    return Promise.all(this.#ranks.map(({ process }) => process.ended));
  }

  async #endAll(signal: NodeJS.Signals): Promise<void> {
    this.#isEnding = true;
    this.#signalRunning(signal);
    await within(this.#allEnded(), this.#graceMs);
    this.#signalRunning('SIGKILL');
  }

  #signalRunning(signal: NodeJS.Signals): void {
    for (const rank of this.#ranks) {
      if (rank.end !== undefined || rank.process.pid === undefined) continue;
      rank.endedBy = signal;
      rank.process.signalGroup(signal);
    }
  }

  /** Ends what a rank has left running in its group. */
  async #endGroup(process: RankProcess): Promise<void> {
    if (!process.signalGroup(0)) return;
    process.signalGroup('SIGTERM');
    const killAt = performance.now() + this.#graceMs;
    // A zombie that nobody reaps stays in its group for ever: after SIGKILL there is nothing left to wait for.
    const giveUpAt = killAt + 500;
    let isKilled = false;
    while (process.signalGroup(0) && performance.now() < giveUpAt) {
      if (!isKilled && performance.now() >= killAt) isKilled = process.signalGroup('SIGKILL');
      await sleep(10);
    }
  }

  #describe({ slot, process, end = { code: 0 }, endedBy, outputs }: RankRecord): RankEnd {
    const lastWords = this.#controlBlock?.lastWords(slot.rank);
    return {
      rank: slot.rank,
      hostname: slot.hostname,
      pid: process.pid,
      end,
      endedBy,
      lastWords,
      blamed: blamedRank(slot.rank, lastWords, this.#controlBlock?.failure()),
      stderrTail: outputs.stderr.tail,
      spawnError: process.spawnError === undefined ? undefined : spawnErrorText(process.spawnError),
    };
  }

  get #graceMs(): number {
    return this.#request.graceMs ?? 5000;
  }
}

function spawnErrorText(error: NodeJS.ErrnoException): string {
  const command = error.path ?? 'the command';
  if (error.code === 'ENOENT') return `${command} was not found`;
  if (error.code === 'EACCES') return `${command} is not executable`;
  return error.message;
}

/** Waits for it, but not longer. */
async function within(promise: Promise<unknown>, ms: number): Promise<void> {
  const timer = new AbortController();
  const patience = sleep(ms, undefined, { signal: timer.signal }).catch(() => undefined);
  await Promise.race([promise, patience]);
  timer.abort();
}
