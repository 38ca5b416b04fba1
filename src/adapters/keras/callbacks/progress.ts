// Shows the progress of training: step, loss, samples per second of all ranks together, time left. Only rank 0 writes. On a
// terminal it is one line that is updated; elsewhere (horovodrun reads its ranks through pipes) it is a line every few seconds
// and one per epoch.

import { formatDuration, formatGeneral, formatRate } from '../format-number.ts';
import {
  type FitLogs,
  HorovodCallback,
  type Membership,
  readLogs,
  readLogValue,
} from './horovod-callback.ts';

export interface ProgressOptions {
  /** Where to write (stdout). */
  stream?: { readonly isTTY?: boolean; readonly columns?: number; write(text: string): unknown } | undefined;
  /** Time between updates: 0.1 s on a terminal, 5 s elsewhere. */
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

const maxBarCells = 24;
const minBarCells = 5;

export class ProgressCallback extends HorovodCallback {
  readonly #stream: NonNullable<ProgressOptions['stream']>;
  readonly #intervalMs: number;
  readonly #unit: string;
  readonly #now: () => number;
  #epoch = 0;
  #epochBeganAt = 0;
  #shownAt = 0;
  #steps = 0;
  /** Samples of this epoch and the time, after the last batch and after the one before it. */
  #done: Mark = { samples: 0, at: 0 };
  #doneBefore: Mark = { samples: 0, at: 0 };

  constructor(options: ProgressOptions = {}, membership?: Membership) {
    super(membership);
    this.#stream = options.stream ?? process.stdout;
    this.#intervalMs = options.intervalMs ?? (this.#stream.isTTY ? 100 : 5000);
    this.#unit = options.unit ?? 'samples';
    this.#now = options.now ?? (() => performance.now());
  }

  override async onEpochBegin(epoch: number, _logs?: FitLogs): Promise<void> {
    this.#epoch = epoch;
    this.#epochBeganAt = this.#now();
    this.#shownAt = this.#epochBeganAt;
    this.#steps = 0;
    this.#done = { samples: 0, at: this.#epochBeganAt };
  }

  override async onBatchEnd(batch: number, logs: FitLogs = {}): Promise<void> {
    const now = this.#now();
    this.#steps += 1;
    this.#doneBefore = this.#done;
    this.#done = { samples: this.#done.samples + Number(logs['size'] ?? 0), at: now };
    const isDue = now - this.#shownAt >= this.#intervalMs && this.#steps !== this.#stepsPerEpoch();
    if (isDue && this.membership.rank() === 0) {
      this.#shownAt = now;
      await this.#show(logs['loss']);
    }
    await super.onBatchEnd(batch, logs);
  }

  override async onEpochEnd(_epoch: number, logs: FitLogs = {}): Promise<void> {
    if (this.membership.rank() !== 0) return;
    const seconds = (this.#now() - this.#epochBeganAt) / 1000;
    // fit() puts the metrics of the validation first.
    const isOfValidation = ([metric]: [string, number]) => Number(metric.startsWith('val_'));
    const metrics = Object.entries(await readLogs(logs))
      .sort((one, other) => isOfValidation(one) - isOfValidation(other))
      .map(([metric, value]) => `${metric} ${formatGeneral(value, 4)}`);
    const parts = [this.#title(), formatDuration(seconds), this.#rate(this.#trained()), ...metrics];
    this.#write(parts.filter((part) => part !== '').join('  '), '\n');
  }

  async #show(loss: FitLogs[string] | undefined): Promise<void> {
    const seconds = (this.#now() - this.#epochBeganAt) / 1000;
    const steps = this.#stepsPerEpoch();
    const lossText = loss === undefined ? '' : `loss ${formatGeneral(await readLogValue(loss), 4)}`;
    const left =
      steps === undefined ? '' : `ETA ${formatDuration((seconds / this.#steps) * (steps - this.#steps))}`;
    const count = steps === undefined ? `step ${this.#steps}` : `${this.#steps}/${steps}`;
    const parts = [count, lossText, this.#rate(this.#done), left].filter((part) => part !== '');
    const text = [this.#title(), ...parts].join('  ');
    const share = steps === undefined ? undefined : this.#steps / steps;
    if (!this.#stream.isTTY) this.#write(text, '\n');
    else this.#write([this.#title(), ...this.#bar(share, text.length), ...parts].join('  '), '');
  }

  /** A bar in the room that the text leaves, if there is enough. */
  #bar(share: number | undefined, textLength: number): string[] {
    const cells = Math.min(maxBarCells, (this.#stream.columns ?? 80) - textLength - '  []'.length - 1);
    return share === undefined || cells < minBarCells ? [] : [drawBar(share, cells)];
  }

  /** On a terminal the line replaces the one before. */
  #write(line: string, end: string): void {
    const { isTTY, columns } = this.#stream;
    const shown = isTTY && columns !== undefined && end === '' ? line.slice(0, columns - 1) : line;
    this.#stream.write(`${isTTY ? '\r\x1b[2K' : ''}${shown}${end}`);
  }

  #title(): string {
    const { epochs } = this.params as { epochs?: number };
    return `Epoch ${this.#epoch + 1}${epochs === undefined ? '' : `/${epochs}`}`;
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

  #stepsPerEpoch(): number | undefined {
    const { steps, samples, batchSize } = this.params as Record<string, number | null | undefined>;
    if (steps) return steps;
    return samples && batchSize ? Math.ceil(samples / batchSize) : undefined;
  }
}

function drawBar(share: number, width: number): string {
  const cells = Math.min(width, Math.floor(share * width));
  return `[${'='.repeat(cells)}${cells < width ? '>' : ''}${' '.repeat(Math.max(0, width - cells - 1))}]`;
}
