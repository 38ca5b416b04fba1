// The ranks of one host that is this machine: starts their processes, watches over their process groups, and keeps
// their exits in the control block.

import { setTimeout as sleep } from 'node:timers/promises';
import { ControlBlock } from '../../control/control-block.ts';
import { rankEnvironment } from '../../settings/environment.ts';
import type { JobSecret } from '../../settings/job-secret.ts';
import type { Slot } from '../hosts/plan-slots.ts';
import type { Guardian } from '../spawn/guardian.ts';
import type { CorePinning } from '../spawn/pin-cores.ts';
import { type RankCommand, RankProcess } from '../spawn/rank-process.ts';
import type { HostRanks, RankEnding, RankTestament, StartedRank } from './host-ranks.ts';

export interface LocalRanksOptions {
  readonly slots: readonly Slot[];
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
  readonly explain: (text: string) => void;
}

export class LocalRanks implements HostRanks {
  readonly hostname: string;
  readonly slots: readonly Slot[];
  readonly #options: LocalRanksOptions;
  readonly #ended = new Map<number, RankEnding>();
  #controlBlock: ControlBlock | undefined;

  constructor(options: LocalRanksOptions) {
    this.#options = options;
    this.slots = options.slots;
    this.hostname = options.slots[0]?.hostname ?? '';
  }

  async start(): Promise<readonly StartedRank[]> {
    return this.slots.map((slot) => this.#startRank(slot));
  }

  useControlBlock(path: string): void {
    let opened: ControlBlock;
    try {
      opened = ControlBlock.open(path);
    } catch {
      return; // Its owner is gone already: exits tell enough.
    }
    this.#controlBlock?.close();
    this.#controlBlock = opened;
    this.#options.explain(`control block of ${this.hostname} at ${path}`);
    for (const [rank, { end }] of this.#ended) opened.recordExit(rank, end);
  }

  async close(): Promise<void> {
    this.#controlBlock?.close();
    this.#controlBlock = undefined;
  }

  #startRank(slot: Slot): StartedRank {
    const { command, guardian, corePinning, gpus, firstPlace = 0, explain } = this.#options;
    const place = firstPlace + slot.localRank;
    const env = this.#environmentOf(slot);
    const begin = () => new RankProcess(slot.rank, command, env);
    const process = corePinning === undefined ? begin() : corePinning.around(place, begin);
    // At once, because a launcher that is killed before this would leave the rank behind.
    if (process.pid !== undefined) guardian.add(process.pid);
    explain(
      `rank ${slot.rank} on ${slot.hostname} (pid ${process.pid ?? 'none'}` +
        `${corePinning === undefined ? '' : `, cores ${corePinning.describe(place)}`}` +
        `${gpus === undefined ? '' : `, GPU ${gpus[slot.localRank]}`}): ${[command.file, ...command.args].join(' ')}`,
    );
    const ended = process.ended.then((end): RankEnding => {
      const ending = { end, spawnError: process.spawnError && spawnErrorText(process.spawnError) };
      this.#ended.set(slot.rank, ending);
      this.#controlBlock?.recordExit(slot.rank, end);
      return ending;
    });
    const cleared = ended.then(async () => {
      await this.#endGroup(process);
      if (process.pid !== undefined) guardian.remove(process.pid);
    });
    const testament = () => this.#testamentOf(slot.rank);
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
    const about = { secret, jobId, rendezvousAddress, localCores: corePinning?.coreCount };
    const env = rankEnvironment(driverEnvironment, environment, { ...slot, ...about });
    if (gpus !== undefined) env['CUDA_VISIBLE_DEVICES'] = gpus[slot.localRank];
    return env;
  }

  #testamentOf(rank: number): RankTestament | undefined {
    const block = this.#controlBlock;
    if (block === undefined) return undefined;
    return { state: block.state(rank), lastWords: block.lastWords(rank), failure: block.failure() };
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
