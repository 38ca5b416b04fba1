// How one of several ranks starts, in stages: find the others → introduce → choose a transport → control block → open the
// transport → the parts of a context. What a stage has opened is closed again if a later one fails, and the first failure of
// any rank ends the start of all of them.

import { createLog, type Log, type LogTopic } from '../../console/log.ts';
import { ControlBlock, toError, toFailureRecord } from '../../control/control-block.ts';
import type { AutotuneWord } from '../../engine/autotune/word.ts';
import type { HorovodError } from '../../errors.ts';
import type { WaitOptions } from '../../net/wait.ts';
import type { HostReporter } from '../../observe/hosts/host-reporter.ts';
import { ControlBlockBoard } from '../../observe/status/status-board.ts';
import { type JoinedJob, joinJob } from '../../rendezvous/join.ts';
import { shortJobId } from '../../rendezvous/short-job-id.ts';
import { gather } from '../../rendezvous/store/gather.ts';
import { controlBlockKey } from '../../rendezvous/store/keys.ts';
import type { Settings } from '../../settings/table.ts';
import { loadNative } from '../../transport/native/load.ts';
import { transportText } from '../../transport/transport.ts';
import type { Autotune } from '../autotune.ts';
import type { ContextParts } from '../context-parts.ts';
import { describeApart } from './apart.ts';
import { checkVersions, ownBuild } from './check-versions.ts';
import { decideTransport, type Introduction, type TransportDecision } from './choose-transport.ts';
import { announcer, type CommonParts, checkRanks, flightPlace } from './common-parts.ts';
import { HostMap, whereabouts } from './hosts.ts';
import { type OpenedTransport, openTransport } from './open-transport.ts';
import { prefixOf, type Seating } from './seating.ts';
import { StartProgress } from './start-progress.ts';
import { asStartFailure, eitherOf, StartWatch } from './start-watch.ts';
import type { Tuning } from './tuning.ts';

export interface JoinRequest {
  readonly settings: Settings;
  /** Of init(): only these ranks of the job take part. */
  readonly ranks: readonly number[] | undefined;
  /** Counts init() calls for the same ranks from 1. */
  readonly generation: number;
  readonly wait: WaitOptions;
  /** Of a worker of an elastic job. */
  readonly seating?: Seating | undefined;
}

/** A rank that has come so far that it can be made a context. */
export interface JoinedParts {
  readonly parts: ContextParts;
  /** Undefined: it is off. */
  readonly autotune: Autotune | undefined;
  /** The failure that ended the start of all ranks, if there was one. */
  firstFailure(): Promise<HorovodError | undefined>;
  /** The context is there, or has failed. */
  endStart(): void;
}

export async function joinRanks(common: CommonParts, request: JoinRequest): Promise<JoinedParts> {
  const start = await Start.findOthers(request);
  try {
    const introductions = await start.introduce();
    const hosts = new HostMap(introductions);
    const decision = start.chooseTransport(introductions, hosts);
    const block = await start.openControlBlock(introductions, hosts);
    const tuning = await start.planTuning(introductions, hosts, decision);
    const opened = await start.openTransport({ introductions, hosts, decision, block, tuning });
    const reporter = await start.reportHost(hosts, block);
    return start.finish(common, { hosts, block, opened, tuning, reporter });
  } catch (error) {
    throw await start.abandon(error);
  }
}

class Start {
  readonly #request: JoinRequest;
  readonly #job: JoinedJob;
  readonly #progress: StartProgress;
  readonly #log: Log;
  readonly #members: readonly number[];
  /** Of this rank in `members`. */
  readonly #place: number;
  /** Of every key in the store: other ranks of the job may start apart from these. */
  readonly #prefix: string;
  readonly #watch: StartWatch;
  /** The rank that has made the control block, if it is another one. */
  #owner: number | undefined;
  #block: ControlBlock | undefined;
  #opened: OpenedTransport | undefined;

  private constructor(
    request: JoinRequest,
    job: JoinedJob,
    members: readonly number[],
    progress: StartProgress,
  ) {
    this.#request = request;
    this.#job = job;
    this.#progress = progress;
    this.#members = members;
    this.#place = members.indexOf(job.rank);
    this.#log = createLog(request.settings, job.rank);
    this.#prefix = prefixOf(request);
    this.#watch = new StartWatch(job.store, this.#key('failure'));
    this.#debug(`in job ${job.jobId} of ${job.launcher}, one of ${job.size} ranks`, 'rendezvous');
  }

  /** Connects with the store through which the ranks meet. */
  static async findOthers(request: JoinRequest): Promise<Start> {
    const { settings, wait, ranks, seating } = request;
    const progress = new StartProgress();
    if (seating !== undefined) {
      const { job } = seating;
      return new Start(request, job, checkRanks(undefined, job.rank, job.size), progress);
    }
    progress.joining(settings);
    const job = await joinJob(settings, wait).finally(() => progress.end());
    try {
      return new Start(request, job, checkRanks(ranks, job.rank, job.size), progress);
    } catch (error) {
      job.close();
      throw error;
    }
  }

  /** The ranks tell each other where they are and what they can. By place in the list of members. */
  async introduce(): Promise<Introduction[]> {
    const introduction = {
      ...introductionOf(this.#request.settings),
      autotune: await this.#autotuneWord(),
    };
    const onMissing = this.#progress.gathering(this.#members, this.#place, this.#log);
    const texts = await this.#gather('introduction', JSON.stringify(introduction), onMissing);
    const introductions = texts.map((text) => JSON.parse(text) as Introduction);
    checkVersions(introductions, this.#members);
    return introductions;
  }

  async #autotuneWord(): Promise<AutotuneWord | undefined> {
    const { settings, seating } = this.#request;
    if (!settings.autotune) return undefined;
    const { autotuneWord } = await import('./tuning.ts');
    const warn = (text: string) => this.#log.write('warning', text);
    return autotuneWord(settings, this.#place === 0, warn, seating?.tuning);
  }

  chooseTransport(introductions: readonly Introduction[], hosts: HostMap): TransportDecision {
    const decision = decideTransport(introductions, this.#members, hosts.hosts);
    const { transport, warning } = decision;
    const apart = describeApart(introductions, this.#members);
    if (this.#place === 0)
      for (const text of [warning, apart]) if (text !== undefined) this.#log.write('warning', text);
    this.#debug(
      `${this.#members.length} ranks on ${hosts.hosts} hosts, transport ${transport}`,
      'rendezvous',
    );
    this.#progress.stage(`opening the ${transport} transport`);
    return decision;
  }

  /** Each host has a control block, made by the first of its ranks. */
  async openControlBlock(introductions: readonly Introduction[], hosts: HostMap): Promise<ControlBlock> {
    const { rank, size, store } = this.#job;
    const { settings, generation, wait } = this.#request;
    const [first] = hosts.placesOn(hosts.hostOf[this.#place] as number) as [number];
    const leader = this.#members[first] as number;
    const key = this.#prefix + controlBlockKey(generation, leader);
    if (rank === leader) {
      this.#block = ControlBlock.create(size, {
        directory: settings.shmDirectory,
        generation: this.#request.seating?.seat.generation,
      });
      await this.#watch.guard(store.set(key, this.#block.path, wait));
    } else {
      this.#owner = leader;
      const path = await this.#watch.guard(store.get(key, { ...wait, from: leader }));
      const pids = [introductions[first]?.pid as number];
      this.#block = ControlBlock.open(path, { ranks: size, pids });
    }
    this.#block.attach(rank);
    return this.#block;
  }

  async planTuning(
    introductions: readonly Introduction[],
    hosts: HostMap,
    { transport }: TransportDecision,
  ): Promise<Tuning | undefined> {
    const word = introductions[0]?.autotune;
    if (word === undefined) return undefined;
    const { Tuning } = await import('./tuning.ts');
    return new Tuning(word, transport, hosts);
  }

  async openTransport({
    introductions,
    hosts,
    decision,
    block,
    tuning,
  }: {
    readonly introductions: readonly Introduction[];
    readonly hosts: HostMap;
    readonly decision: TransportDecision;
    readonly block: ControlBlock;
    readonly tuning: Tuning | undefined;
  }): Promise<OpenedTransport> {
    const { settings, generation, wait } = this.#request;
    this.#opened = await openTransport({
      settings: { ...settings, ...tuning?.hierarchy },
      job: this.#job,
      block,
      hosts,
      loopbacks: introductions.map(({ loopback }) => loopback),
      members: this.#members,
      place: this.#place,
      decision,
      log: this.#log,
      generation: `${this.#prefix}${generation}`,
      wait: { ...wait, signal: eitherOf(wait.signal, this.#watch.signal) },
      exchange: (text) => this.#gather('addresses', text),
      memory: this.#request.seating?.memory,
      watch: this.#request.seating?.watch,
    });
    const { transport } = this.#opened;
    this.#debug(
      `the transport is open: ${transportText(transport)}, background ${transport.background}`,
      'transport',
    );
    return this.#opened;
  }

  /** Undefined: this is the task of another process. */
  async reportHost(hosts: HostMap, block: ControlBlock): Promise<HostReporter | undefined> {
    const { launcher } = this.#request.settings;
    if (launcher.kind === 'horovodrun' || hosts.hosts > 1 || this.#place !== 0) return undefined;
    const { reportHost } = await import('./host-report.ts');
    return reportHost({ hosts, block, members: this.#members, log: this.#log });
  }

  finish(
    common: CommonParts,
    {
      hosts,
      block,
      opened,
      tuning,
      reporter,
    }: {
      readonly hosts: HostMap;
      readonly block: ControlBlock;
      readonly opened: OpenedTransport;
      readonly tuning: Tuning | undefined;
      readonly reporter: HostReporter | undefined;
    },
  ): JoinedParts {
    const { settings, seating } = this.#request;
    const { rank, jobId } = this.#job;
    const members = this.#members;
    const { transport } = opened;
    const groupTunables = tuning?.groupTunables(transport, hosts, settings);
    const forgetLastWords = rememberLastWords(block, rank);
    let failureTold: Promise<HorovodError> | undefined;
    let isStarting = true;
    let groups = 0;
    const parts: ContextParts = {
      ...common,
      log: this.#log,
      world: hosts.worldOf(this.#place),
      transport,
      members,
      hostOf: hosts.hostOf,
      openGroup: groupTunables?.open,
      exchange: (text) => this.#gather('group', text, undefined, `/${++groups}`),
      startSignal: this.#watch.signal,
      status: {
        board: new ControlBlockBoard(block, members),
        host: hosts.nameOf(this.#place),
        job: shortJobId(jobId),
      },
      timelineBlock: {
        fd: block.fd,
        path: block.path,
        ranks: block.ranks,
        number: rank,
        hasOtherHosts: hosts.hosts > 1,
      },
      flight: flightPlace(settings, this.#flightName(shortJobId(jobId)), seating?.seat.generation),
      worker: seating,
      steps: seating?.steps,
      hasNotice: () => block.notice,
      pidOf: (each) => block.pid(members[each] as number),
      failJob: (error) => {
        const isOurs = block.fail(toFailureRecord(error));
        const record = isOurs ? undefined : block.failure();
        const first = record === undefined ? error : toError(record);
        if (isStarting) failureTold ??= this.#watch.tell(first, this.#owner);
      },
      leave: () => block.leave(rank),
      close: () => {
        forgetLastWords();
        reporter?.close();
        opened.close();
        // The failure goes out first, and the block stays for those who are about to open it.
        const end = () => {
          this.#job.close();
          block.close();
        };
        if (failureTold === undefined) end();
        else void failureTold.finally(end);
      },
    };
    return {
      parts,
      autotune: tuning && {
        word: tuning.word,
        shape: tuning.shape,
        settings,
        groupTunables,
        settled: seating?.tuning,
        isContinued: (seating?.seat.generation ?? 1) > 1,
        say: announcer(settings, this.#place),
      },
      firstFailure: async () => failureTold,
      endStart: () => {
        this.#progress.end();
        isStarting = false;
        this.#watch.end();
      },
    };
  }

  /** Tells the others of the failure, closes everything, and returns the error to throw: the first of any rank. */
  async abandon(error: unknown): Promise<unknown> {
    this.#progress.end();
    const ours = asStartFailure(error, this.#job.rank);
    const first = await this.#watch.tell(ours, this.#owner);
    this.#block?.fail(toFailureRecord(first));
    this.#opened?.close();
    this.#job.close();
    this.#block?.close();
    // An error that is not a HorovodError goes to the caller as it is.
    return first === ours ? error : first;
  }

  /** Every member gives a text and gets those of all. */
  #gather(
    what: string,
    text: string,
    onMissing?: (missing: readonly number[]) => void,
    suffix = '',
  ): Promise<readonly string[]> {
    const { wait } = this.#request;
    return this.#watch.guard(
      gather(this.#job.store, `${this.#key(what)}${suffix}`, text, {
        ...wait,
        members: this.#members,
        rank: this.#job.rank,
        ...(onMissing === undefined ? {} : { onMissing }),
      }),
    );
  }

  #flightName(job: string): string {
    const { ranks } = this.#request;
    return [job, ...(ranks === undefined ? [] : this.#members)].join('-');
  }

  #key(what: string): string {
    return `${this.#prefix}${what}/${this.#request.generation}`;
  }

  #debug(text: string, topic: LogTopic): void {
    this.#log.write('debug', text, { topic });
  }
}

function introductionOf(settings: Settings): Introduction {
  const { transport, launcher, hostname, encrypt } = settings;
  const native = loadNative(settings);
  const wish = transport === 'auto' && !settings.native ? 'portable' : transport;
  const lack = transport === 'portable' ? 'HOROVOD_TRANSPORT=portable' : native.built ? '' : native.reason;
  const givenName = launcher.kind === 'horovodrun' ? hostname : undefined;
  return { ...whereabouts(givenName), ...ownBuild(), pid: process.pid, wish, lack, encrypt };
}

/** An uncaught error is about to end this process: other ranks and the launcher learn which one. */
function rememberLastWords(block: ControlBlock, rank: number): () => void {
  const onError = (error: unknown) => block.writeLastWords(rank, error);
  process.on('uncaughtExceptionMonitor', onError);
  return () => process.off('uncaughtExceptionMonitor', onError);
}
