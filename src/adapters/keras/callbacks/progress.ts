// Shows the progress of training: step, loss, samples per second of all ranks together, time left. Only rank 0 writes. On a
// terminal, also that of horovodrun, it is one line that is updated; elsewhere it is a line every few seconds and one per epoch.

import { type OutputStream, type Terminal, terminalOf } from '../../../console/terminal.ts';
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
  readonly #stream: OutputStream;
  readonly #terminal: Terminal | undefined;
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
    this.#terminal = terminalOf(this.#stream);
    this.#intervalMs = options.intervalMs ?? (this.#terminal === undefined ? 5000 : 100);
    this.#unit = options.unit ?? 'samples';
    this.#now = options.now ?? (() => performance.now());
  }

  override async onEpochBegin(epoch: number, logs?: FitLogs): Promise<void> {
    await super.onEpochBegin(epoch, logs);
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
    const isDue = now - this.#shownAt >= this.#intervalMs && this.#steps !== this.batchesPerEpoch();
    if (isDue && this.membership.rank() === 0) {
      this.#shownAt = now;
      await this.#show(logs['loss']);
    }
    await super.onBatchEnd(batch, logs);
  }

  override async onEpochEnd(epoch: number, logs: FitLogs = {}): Promise<void> {
    await super.onEpochEnd(epoch, logs);
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
    const seconds = (this.#now() - this.#epochBeganAt) / 1000;
    const steps = this.batchesPerEpoch();
    const lossText = loss === undefined ? '' : `loss ${formatGeneral(await readLogValue(loss), 4)}`;
    const left =
      steps === undefined ? '' : `ETA ${formatDuration((seconds / this.#steps) * (steps - this.#steps))}`;
    const count = steps === undefined ? `step ${this.#steps}` : `${this.#steps}/${steps}`;
    const parts = [count, lossText, this.#rate(this.#done), left].filter((part) => part !== '');
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
