// The ranks of one host that is this machine: starts their processes, watches over their process groups, and keeps
// their exits in the control block.

import { setTimeout as sleep } from 'node:timers/promises';
import { ControlBlock, controlLayout } from '../../control/control-block.ts';
import type { ProcessEnd } from '../../control/process-status.ts';
import type { LocalRank } from '../../observe/hosts/host-sampler.ts';
import type { JobView } from '../../observe/status/job-view.ts';
import type { RecordOrder, RecordProgress } from '../../observe/timeline/record-order.ts';
import { encodeJobNews, type JobNews } from '../../rendezvous/driver/job-news.ts';
import { rankEnvironment } from '../../settings/environment.ts';
import type { JobSecret } from '../../settings/job-secret.ts';
import { launcherKillsAfterMs } from '../../transport/native/hands-off.ts';
import { numberOf, type Slot } from '../hosts/plan-slots.ts';
import type { Guardian } from '../spawn/guardian.ts';
import type { CorePinning } from '../spawn/pin-cores.ts';
import { type RankCommand, RankProcess } from '../spawn/rank-process.ts';
import { TerminalFile } from '../spawn/terminal-file.ts';
import type { HostObserver } from './host-observer.ts';
import type { HostRanks, RankEnding, RankTestament, StartedRank } from './host-ranks.ts';
import type { ProcessWatch, ProcessWatchOptions } from './process-watch.ts';

/** How often the control block is looked at for a fence. */
const fenceLookMs = 100;
/** After this time, how busy the host is is written down. Before, ranks start, and short jobs end. */
const observeAfterMs = 1000;

export interface LocalRanksOptions {
  readonly hostname: string;
  readonly command: RankCommand;
  readonly driverEnvironment: NodeJS.ProcessEnv;
  /** Variables that flags and config file set. */
  readonly environment: Readonly<Record<string, string>>;
  readonly secret: JobSecret;
  readonly jobId: string;
  readonly rendezvousAddress: string;
  readonly guardian: Guardian;
  readonly corePinning?: CorePinning | undefined;
  /** Of the core pinning: that of local rank 0. Two names of one machine share its cores. */
  readonly firstPlace?: number | undefined;
  /** CUDA_VISIBLE_DEVICES for each local rank. */
  readonly gpus?: readonly string[] | undefined;
  /** Between a polite signal and SIGKILL, for what a rank has left running. */
  readonly graceMs: number;
  /** Of the launcher's terminal, for rank 0; undefined: there is none. */
  readonly terminalColumns?: number | undefined;
  readonly explain: (text: string) => void;
  /** Prints a warning about this host. */
  readonly warn: (text: string) => void;
  /** Of an elastic job. */
  readonly watch?: ProcessWatchOptions | undefined;
}

export class LocalRanks implements HostRanks {
  readonly hostname: string;
  readonly #options: LocalRanksOptions;
  readonly #ended = new Map<number, RankEnding>();
  readonly #processes = new Map<number, RankProcess>();
  #controlBlock: ControlBlock | undefined;
  /** Of an elastic job: numbers of the workers that have a page in it, by page. */
  #workers: readonly number[] | undefined;
  #news: Omit<JobNews, 'pid'> | undefined;
  #newsWritten = 0;
  /** Of workers that have ended: the next generation has another control block. */
  readonly #testaments = new Map<number, RankTestament>();
  #terminal: TerminalFile | undefined;
  #fenceWatch: NodeJS.Timeout | undefined;
  /** Of an elastic job. */
  #processWatch: ProcessWatch | undefined;
  #observer: HostObserver | undefined;
  #observing: Promise<void> | undefined;
  #observeLater: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: LocalRanksOptions) {
    this.#options = options;
    this.hostname = options.hostname;
  }

  async start(slots: readonly Slot[]): Promise<readonly StartedRank[]> {
    const { terminalColumns, watch } = this.#options;
    if (watch !== undefined && this.#processWatch === undefined) {
      const { ProcessWatch } = await import('./process-watch.ts');
      this.#processWatch ??= new ProcessWatch(() => this.#running(), watch);
    }
    if (terminalColumns !== undefined && slots.some(({ rank }) => rank === 0)) {
      this.#terminal ??= TerminalFile.create(terminalColumns);
    }
    return slots.map((slot) => this.#startRank(slot));
  }

  useControlBlock(path: string, workers?: readonly number[]): void {
    let opened: ControlBlock;
    try {
      opened = ControlBlock.open(path);
    } catch {
      return; // Its owner is gone already: exits tell enough.
    }
    this.#controlBlock?.close();
    this.#controlBlock = opened;
    this.#workers = workers;
    this.#options.explain(`control block of ${this.hostname} at ${path}`);
    for (const [number, { end }] of this.#ended) this.#recordExit(number, end);
    this.#writeNews();
    this.#watchFence(opened);
    this.#processWatch?.useControlBlock(opened, workers);
    this.#observer?.use(opened);
    this.#observeLater ??= setTimeout(() => void this.#observe(), observeAfterMs).unref();
  }

  /** Watching changes nothing: without it, ranks go on. */
  #observe(): Promise<void> {
    this.#observing ??= this.#loadObserver().catch(() => undefined);
    return this.#observing;
  }

  async #loadObserver(): Promise<void> {
    const { HostObserver } = await import('./host-observer.ts');
    if (this.#isClosed) return;
    const { hostname, jobId, warn } = this.#options;
    this.#observer = new HostObserver({
      hostname,
      jobId,
      warn,
      ranks: (block) => this.#attachedRanks(block),
    });
    if (this.#controlBlock !== undefined) this.#observer.use(this.#controlBlock);
  }

  notice(): void {
    this.#controlBlock?.setNotice();
  }

  tellNews(news: Omit<JobNews, 'pid'>): void {
    this.#news = news;
    this.#writeNews();
  }

  #writeNews(): void {
    if (this.#news === undefined) return;
    const text = encodeJobNews({ ...this.#news, pid: process.pid }, controlLayout.statusBytes);
    this.#controlBlock?.writeNews(++this.#newsWritten, text);
  }

  record(order: RecordOrder): void {
    this.#observer?.record(order);
  }

  recordProgress(number: number): RecordProgress {
    return this.#observer?.recordProgress(number) ?? 'none';
  }

  look(known?: JobView): JobView | undefined {
    void this.#observe();
    return this.#observer === undefined ? known : this.#observer.look(known);
  }

  resizeTerminal(columns: number): void {
    this.#terminal?.write(columns);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#fenceWatch);
    clearTimeout(this.#observeLater);
    this.#processWatch?.close();
    this.#observer?.close();
    this.#observer = undefined;
    this.#controlBlock?.close();
    this.#controlBlock = undefined;
    this.#terminal?.close();
    this.#terminal = undefined;
  }

  *#running(): Generator<readonly [number: number, pid: number]> {
    for (const [number, { pid }] of this.#processes)
      if (pid !== undefined && !this.#ended.has(number)) yield [number, pid];
  }

  /** The processes in the control block may be children of ours: a shell, or npx. */
  *#attachedRanks(block: ControlBlock): Generator<LocalRank> {
    for (const [number] of this.#running()) {
      const rank = this.#pageOf(number);
      const pid = rank === undefined ? 0 : block.pid(rank);
      if (rank !== undefined && pid !== 0) yield { rank, pid };
    }
  }

  /** After a failure, kills ranks that do not take their hands off the memory of others, which wait for them. */
  #watchFence(block: ControlBlock): void {
    clearInterval(this.#fenceWatch);
    // Looks are counted and not time: this process may have been stopped together with its ranks.
    let looks = 0;
    const look = () => {
      if (!block.isClosed || ++looks <= launcherKillsAfterMs / fenceLookMs) return;
      for (const [number, process] of this.#processes) {
        const page = this.#pageOf(number);
        if (this.#ended.has(number) || page === undefined || !block.isTouching(page)) continue;
        block.markKilledByFence(page);
        process.signalGroup('SIGKILL');
      }
    };
    this.#fenceWatch = setInterval(look, fenceLookMs).unref();
  }

  #startRank(slot: Slot): StartedRank {
    const { command, guardian, corePinning, gpus, firstPlace = 0, explain } = this.#options;
    const place = firstPlace + slot.localRank;
    const env = this.#environmentOf(slot);
    const number = numberOf(slot);
    const begin = () => new RankProcess(number, command, env);
    const process = corePinning === undefined ? begin() : corePinning.around(place, begin);
    this.#processes.set(number, process);
    // At once, because a launcher that is killed before this would leave the rank behind.
    if (process.pid !== undefined) guardian.add(process.pid);
    explain(
      `${slot.worker === undefined ? 'rank' : 'worker'} ${number} on ${slot.hostname} (pid ${process.pid ?? 'none'}` +
        `${corePinning === undefined ? '' : `, cores ${corePinning.describe(place)}`}` +
        `${gpus === undefined ? '' : `, GPU ${gpus[slot.localRank]}`}): ${[command.file, ...command.args].join(' ')}`,
    );
    const ended = process.ended.then((end): RankEnding => {
      const ending = { end, spawnError: process.spawnError && spawnErrorText(process.spawnError) };
      this.#ended.set(number, ending);
      this.#recordExit(number, end);
      return ending;
    });
    const cleared = ended.then(async () => {
      await this.#endGroup(process);
      // Whoever looks at the job once it is over sees its end.
      await this.#observing;
      if (process.pid !== undefined) guardian.remove(process.pid);
    });
    const testament = () => this.#testamentOf(number);
    return {
      slot,
      pid: process.pid,
      stdout: process.stdout,
      stderr: process.stderr,
      endsItsStreams: false,
      ended,
      cleared,
      get testament() {
        return testament();
      },
      signal: (signal) => void process.signalGroup(signal),
    };
  }

  #environmentOf(slot: Slot): NodeJS.ProcessEnv {
    const { driverEnvironment, environment, secret, jobId, rendezvousAddress, corePinning, gpus } =
      this.#options;
    const terminal = slot.rank === 0 ? this.#terminal?.path : undefined;
    const about = { secret, jobId, rendezvousAddress, localCores: corePinning?.coreCount, terminal };
    const env = rankEnvironment(driverEnvironment, environment, { ...slot, ...about });
    if (gpus !== undefined) env['CUDA_VISIBLE_DEVICES'] = gpus[slot.localRank];
    return env;
  }

  /** Its page in the control block; undefined: it has none. */
  #pageOf(number: number): number | undefined {
    const page = this.#workers === undefined ? number : this.#workers.indexOf(number);
    return page >= 0 && page < (this.#controlBlock?.ranks ?? 0) ? page : undefined;
  }

  #recordExit(number: number, end: ProcessEnd): void {
    const page = this.#pageOf(number);
    if (page === undefined) return;
    this.#controlBlock?.recordExit(page, end);
    const testament = this.#workers === undefined ? undefined : this.#testamentOf(number);
    if (testament !== undefined) this.#testaments.set(number, testament);
  }

  #testamentOf(number: number): RankTestament | undefined {
    const kept = this.#testaments.get(number);
    const block = this.#controlBlock;
    const page = this.#pageOf(number);
    if (kept !== undefined || block === undefined || page === undefined) return kept;
    return {
      state: block.state(page),
      lastWords: block.lastWords(page),
      failure: block.failure(),
      wasKilledByFence: block.wasKilledByFence(page),
    };
  }

  /** Ends what a rank has left running in its group. */
  async #endGroup(process: RankProcess): Promise<void> {
    if (!process.signalGroup(0)) return;
    process.signalGroup('SIGTERM');
    const killAt = performance.now() + this.#options.graceMs;
    // A zombie that nobody reaps stays in its group for ever, so we stop waiting some time after SIGKILL.
    const giveUpAt = killAt + 500;
    let isKilled = false;
    while (process.signalGroup(0) && performance.now() < giveUpAt) {
      if (!isKilled && performance.now() >= killAt) isKilled = process.signalGroup('SIGKILL');
      await sleep(10);
    }
  }
}

function spawnErrorText(error: NodeJS.ErrnoException): string {
  const command = error.path ?? 'the command';
  if (error.code === 'ENOENT') return `${command} was not found`;
  if (error.code === 'EACCES') return `${command} is not executable`;
  if (error.code === 'E2BIG')
    return `${command} was not started: its arguments and environment are larger than this system allows`;
  return error.message;
}
