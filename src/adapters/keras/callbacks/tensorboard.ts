// Writes the metrics of every epoch, and of every n-th batch if asked for, to TensorBoard event files. Only rank 0 writes. Files
// are laid out as by Keras: <logDir>/train and <logDir>/validation.

import { logdir } from '../../../data/events/logdir.ts';
import { SummaryWriter } from '../../../data/events/summary-writer.ts';
import { joinLocation, locationOf } from '../../../files/location.ts';
import { type FitLogs, HorovodCallback, type Membership, readLogs } from './horovod-callback.ts';

export interface TensorBoardOptions {
  /** A folder or a URL, such as hdfs://…. Default: logdir() of horovod/tensorboard. */
  logDir?: string | undefined;
  /** 'epoch' (the default), 'batch', or a number of batches. */
  updateFreq?: 'epoch' | 'batch' | number | undefined;
}

export class TensorBoard extends HorovodCallback {
  readonly #logDir: string;
  readonly #batchesPerUpdate: number;
  readonly #writers = new Map<string, SummaryWriter>();
  #batches = 0;

  constructor(options: string | TensorBoardOptions = {}, membership?: Membership) {
    super(membership);
    const { logDir = logdir(), updateFreq = 'epoch' } =
      typeof options === 'string' ? { logDir: options } : (options ?? {});
    if (typeof logDir !== 'string' || logDir === '')
      throw this.invalid(`logDir must be a folder, not ${JSON.stringify(logDir)}`);
    const batches =
      updateFreq === 'epoch' ? Number.POSITIVE_INFINITY : updateFreq === 'batch' ? 1 : updateFreq;
    if (!(batches >= 1))
      throw this.invalid(`updateFreq must be 'epoch', 'batch' or a number of batches, not ${updateFreq}`);
    this.#logDir = locationOf(logDir);
    this.#batchesPerUpdate = batches;
  }

  override async onBatchEnd(batch: number, logs: FitLogs = {}): Promise<void> {
    this.#batches += 1;
    if (this.membership.rank() === 0 && this.#batches % this.#batchesPerUpdate === 0) {
      const { batch: _batch, size: _size, ...metrics } = await readLogs(logs);
      await this.#write('train', this.#batches - 1, 'batch_', metrics);
    }
    await super.onBatchEnd(batch, logs);
  }

  override async onEpochEnd(epoch: number, logs: FitLogs = {}): Promise<void> {
    await super.onEpochEnd(epoch, logs);
    if (this.membership.rank() !== 0) return;
    const all = Object.entries(await readLogs(logs));
    const validation = all.filter(([metric]) => metric.startsWith('val_'));
    const training = all.filter(([metric]) => !metric.startsWith('val_'));
    await this.#write('train', epoch, 'epoch_', Object.fromEntries(training));
    await this.#write(
      'validation',
      epoch,
      'epoch_',
      Object.fromEntries(validation.map(([metric, value]) => [metric.slice('val_'.length), value])),
    );
  }

  /** On a server, what was collected is written now. */
  override async onTrainEnd(logs?: FitLogs): Promise<void> {
    await super.onTrainEnd(logs);
    for (const writer of this.#writers.values()) await writer.flush().catch(isWarning);
  }

  async #write(run: string, step: number, prefix: string, metrics: Record<string, number>): Promise<void> {
    const scalars = Object.entries(metrics).map(([metric, value]) => [prefix + metric, value] as const);
    if (scalars.length === 0) return;
    const writer = this.#writers.get(run) ?? new SummaryWriter(joinLocation(this.#logDir, run));
    this.#writers.set(run, writer);
    await writer.scalars(Object.fromEntries(scalars), step).catch(isWarning);
  }
}

/** The writer has printed a warning about it. A full disk for curves is no reason to end a training run. */
function isWarning(_error: unknown): void {}
