// Shows the progress of training: epoch, step, loss, samples per second of all ranks together, the time left, and a rank that the others
// wait for. Only rank 0 writes. On a terminal, also that of horovodrun, it is one line that is updated; elsewhere, as in CI, it is a line
// per epoch, and within long epochs a line now and then.

import { type OutputStream, type Terminal, terminalOf } from '../../../console/terminal.ts';
import type { LateRank } from '../../context.ts';
import { formatDuration, formatGeneral, formatRate } from '../format-number.ts';
import {
  type FitLogs,
  HorovodCallback,
  type Membership,
  readLogs,
  readLogValue,
  shareOf,
} from './horovod-callback.ts';

export interface ProgressOptions {
  /** Where to write (stdout). */
  stream?: { readonly isTTY?: boolean; readonly columns?: number; write(text: string): unknown } | undefined;
  /** Time between updates. Default: 0.2 s on a terminal; elsewhere 5 s, then twice as long each time, up to a minute. */
  intervalMs?: number | undefined;
  /** What samples are called: 'images', 'words' … Default: 'samples'. */
  unit?: string | undefined;
  /** A clock in milliseconds, for tests. */
  now?: (() => number) | undefined;
}

interface Mark {
  readonly samples: number;
  readonly at: number;
}

const terminalIntervalMs = 200;
const [firstSilenceMs, maxSilenceMs] = [5000, 60_000];
/** A look at all ranks' pages is worth it so often. */
const lateRankIntervalMs = 1000;
const maxBarCells = 24;
const minBarCells = 5;

export class ProgressCallback extends HorovodCallback {
  readonly #stream: OutputStream;
  readonly #terminal: Terminal | undefined;
  #intervalMs: number;
  /** The interval becomes longer. */
  readonly #growsQuiet: boolean;
  readonly #unit: string;
  readonly #now: () => number;
  #epoch = 0;
  #epochBeganAt = 0;
  #shownAt = 0;
  /** Of this epoch. */
  #steps = 0;
  /** The first step of training is slow: it prepares what the others use again. */
  #firstStepMs = 0;
  /** Of the last whole epoch, with its validation. */
  #epochMs: number | undefined;
  #late: LateRank | undefined;
  #lookedForLateAt = Number.NEGATIVE_INFINITY;
  /** Samples of this epoch and the time, after the last batch and after the one before it. */
  #done: Mark = { samples: 0, at: 0 };
  #doneBefore: Mark = { samples: 0, at: 0 };

  constructor(options: ProgressOptions = {}, membership?: Membership) {
    super(membership);
    this.#stream = options.stream ?? process.stdout;
    this.#terminal = terminalOf(this.#stream);
    const isTerminal = this.#terminal !== undefined;
    this.#growsQuiet = !isTerminal && options.intervalMs === undefined;
    this.#intervalMs = options.intervalMs ?? (isTerminal ? terminalIntervalMs : firstSilenceMs);
    this.#unit = options.unit ?? 'samples';
    this.#now = options.now ?? (() => performance.now());
  }

  override async onEpochBegin(epoch: number, logs?: FitLogs): Promise<void> {
    await super.onEpochBegin(epoch, logs);
    this.#epoch = epoch;
    this.#epochBeganAt = this.#now();
    this.#shownAt = this.#epochBeganAt;
    this.#steps = 0;
    this.#firstStepMs = 0;
    this.#done = { samples: 0, at: this.#epochBeganAt };
  }

  override async onBatchEnd(batch: number, logs: FitLogs = {}): Promise<void> {
    const now = this.#now();
    this.#steps += 1;
    if (this.#steps === 1) this.#firstStepMs = now - this.#epochBeganAt;
    this.#doneBefore = this.#done;
    this.#done = { samples: this.#done.samples + Number(logs['size'] ?? 0), at: now };
    const isDue = now - this.#shownAt >= this.#intervalMs && this.#steps !== this.batchesPerEpoch();
    if (isDue && this.membership.rank() === 0) {
      this.#shownAt = now;
      if (this.#growsQuiet) this.#intervalMs = Math.min(2 * this.#intervalMs, maxSilenceMs);
      await this.#show(logs['loss']);
    }
    await super.onBatchEnd(batch, logs);
  }

  override async onEpochEnd(epoch: number, logs: FitLogs = {}): Promise<void> {
    await super.onEpochEnd(epoch, logs);
    // An epoch that was resumed says nothing of a whole one.
    if (!shareOf(this).isRest) this.#epochMs = this.#now() - this.#epochBeganAt;
    if (this.membership.rank() !== 0) return;
    const seconds = (this.#now() - this.#epochBeganAt) / 1000;
    // fit() puts the metrics of the validation first.
    const isOfValidation = ([metric]: [string, number]) => Number(metric.startsWith('val_'));
    const metrics = Object.entries(await readLogs(logs))
      .sort((one, other) => isOfValidation(one) - isOfValidation(other))
      .map(([metric, value]) => `${metric} ${formatGeneral(value, 4)}`);
    const parts = [this.#title(), formatDuration(seconds), this.#rate(this.#trained()), ...metrics];
    const line = parts.filter((part) => part !== '').join('  ');
    if (this.#terminal === undefined) this.#stream.write(`${line}\n`);
    else this.#terminal.print(line);
  }

  async #show(loss: FitLogs[string] | undefined): Promise<void> {
    const steps = this.batchesPerEpoch();
    const count = steps === undefined ? `step ${this.#steps}` : `step ${this.#steps} of ${steps}`;
    const lossText = loss === undefined ? '' : `loss ${formatGeneral(await readLogValue(loss), 4)}`;
    const all = [count, lossText, this.#rate(this.#done), this.#timeLeft(steps), this.#lateText()];
    const parts = all.filter((part) => part !== '');
    const text = [this.#title(), ...parts].join('  ');
    const share = steps === undefined ? undefined : this.#steps / steps;
    const terminal = this.#terminal;
    if (terminal === undefined) this.#stream.write(`${text}\n`);
    else {
      const bar = makeBar(share, terminal.columns - text.length);
      terminal.show([this.#title(), ...bar, ...parts].join('  '));
    }
  }

  #title(): string {
    const { epochs } = this.params as { epochs?: number };
    return `Epoch ${this.#epoch + 1}${epochs === undefined ? '' : `/${epochs}`}`;
  }

  /** Of all epochs. Empty if it is not known. */
  #timeLeft(steps: number | undefined): string {
    if (steps === undefined) return '';
    const { epochs = this.#epoch + 1 } = this.params as { epochs?: number };
    const passedMs = this.#now() - this.#epochBeganAt;
    const [others, othersMs] = [this.#steps - 1, passedMs - this.#firstStepMs];
    const stepMs = others > 0 ? othersMs / others : passedMs;
    const epochsLeft = Math.max(0, epochs - this.#epoch - 1);
    const leftMs = stepMs * (steps - this.#steps) + epochsLeft * (this.#epochMs ?? stepMs * steps);
    return `${formatDuration(leftMs / 1000)} left`;
  }

  #lateText(): string {
    if (this.#now() - this.#lookedForLateAt >= lateRankIntervalMs) {
      this.#lookedForLateAt = this.#now();
      this.#late = this.membership.lateRank?.();
    }
    const late = this.#late;
    return late === undefined ? '' : `rank ${late.rank} is ${Math.round(late.lateMs)} ms late`;
  }

  /** The end of training in this epoch, without validation: fit() validates before it reports the last batch. */
  #trained(): Mark {
    const { doValidation, samples } = this.params as { doValidation?: boolean; samples?: number | null };
    return doValidation && samples && this.#steps > 1 ? this.#doneBefore : this.#done;
  }

  /** Of all ranks together, assuming that each does as much as this one. Empty if the size of batches is unknown. */
  #rate({ samples, at }: Mark): string {
    if (samples === 0) return '';
    const perSecond = (samples * this.membership.size()) / ((at - this.#epochBeganAt) / 1000);
    return `${formatRate(perSecond)} ${this.#unit}/s`;
  }
}

/** A bar in the room that the text leaves, if there is enough. */
function makeBar(share: number | undefined, columns: number): string[] {
  const cells = Math.min(maxBarCells, columns - '  []'.length - 1);
  return share === undefined || cells < minBarCells ? [] : [drawBar(share, cells)];
}

function drawBar(share: number, width: number): string {
  const cells = Math.min(width, Math.floor(share * width));
  return `[${'='.repeat(cells)}${cells < width ? '>' : ''}${' '.repeat(Math.max(0, width - cells - 1))}]`;
}
