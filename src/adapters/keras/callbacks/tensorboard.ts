// Writes the metrics of every epoch, and of every n-th batch if asked for, to TensorBoard event files. On request it adds histograms of
// the weights, the hyperparameters, and how the ranks do. Only rank 0 writes. Files are laid out as by Keras: <logDir>/train and
// <logDir>/validation, and besides <logDir>/system.

import type { LayersModel } from '@tensorflow/tfjs';
import { logdir } from '../../../data/events/logdir.ts';
import type { HparamValue } from '../../../data/events/summary-message.ts';
import { SummaryWriter } from '../../../data/events/summary-writer.ts';
import { joinLocation, locationOf } from '../../../files/location.ts';
import { describe } from '../../../tensor/tensor.ts';
import { type RankFigures, rankFigures } from '../../context.ts';
import { type FitLogs, HorovodCallback, type Membership, readLogs } from './horovod-callback.ts';

export interface TensorBoardOptions {
  /** A folder or a URL, such as hdfs://…. Default: logdir() of horovod/tensorboard. */
  logDir?: string | undefined;
  /** 'epoch' (the default), 'batch', or a number of batches. */
  updateFreq?: 'epoch' | 'batch' | number | undefined;
  /** Histograms of all weights after each so many epochs. Default: 0, never. */
  histogramFreq?: number | undefined;
  /** Hyperparameters for the page HParams: true takes the optimizer, batch size, epochs and ranks; an object adds your own. */
  writeHparams?: boolean | Readonly<Record<string, HparamValue>> | undefined;
  /** How the ranks do: samples per second, waiting, communication and memory, whenever metrics are written. Default: false. */
  writeSystem?: boolean | undefined;
}

/** How ranks do changes slowly. */
const systemIntervalMs = 1000;

export class TensorBoard extends HorovodCallback {
  readonly #logDir: string;
  readonly #batchesPerUpdate: number;
  readonly #histogramFreq: number;
  readonly #hparams: Readonly<Record<string, HparamValue>> | undefined;
  readonly #writesSystem: boolean;
  readonly #readRanks: () => readonly RankFigures[];
  readonly #writers = new Map<string, SummaryWriter>();
  #batches = 0;
  #hasHparams = false;
  /** Of the hyperparameters, until the end of training. */
  #session: SummaryWriter | undefined;
  #systemAt = Number.NEGATIVE_INFINITY;

  /** `readRanks`: of tests. */
  constructor(
    options: string | TensorBoardOptions = {},
    membership?: Membership,
    readRanks: () => readonly RankFigures[] = rankFigures,
  ) {
    super(membership);
    const given: TensorBoardOptions = typeof options === 'string' ? { logDir: options } : (options ?? {});
    const { logDir = logdir(), updateFreq = 'epoch', histogramFreq = 0 } = given;
    const { writeHparams = false, writeSystem = false } = given;
    if (typeof logDir !== 'string' || logDir === '')
      throw this.invalid(`logDir must be a folder, not ${JSON.stringify(logDir)}`);
    const batches =
      updateFreq === 'epoch' ? Number.POSITIVE_INFINITY : updateFreq === 'batch' ? 1 : updateFreq;
    if (!(batches >= 1))
      throw this.invalid(`updateFreq must be 'epoch', 'batch' or a number of batches, not ${updateFreq}`);
    if (!Number.isSafeInteger(histogramFreq) || histogramFreq < 0)
      throw this.invalid(`histogramFreq must be a number of epochs, or 0, not ${describe(histogramFreq)}`);
    if (typeof writeHparams !== 'boolean' && (typeof writeHparams !== 'object' || writeHparams === null))
      throw this.invalid(`writeHparams must be true, false or an object, not ${describe(writeHparams)}`);
    this.#logDir = locationOf(logDir);
    this.#batchesPerUpdate = batches;
    this.#histogramFreq = histogramFreq;
    this.#hparams = writeHparams === true ? {} : writeHparams === false ? undefined : writeHparams;
    this.#writesSystem = writeSystem;
    this.#readRanks = readRanks;
  }

  override async onTrainBegin(logs?: FitLogs): Promise<void> {
    await super.onTrainBegin(logs);
    if (this.#hparams === undefined || this.#hasHparams || this.membership.rank() !== 0) return;
    this.#hasHparams = true;
    // In the folder above those of the metrics, with which the page HParams joins it.
    this.#session = new SummaryWriter(this.#logDir);
    await this.#session.hparams({ ...this.#knownHparams(), ...this.#hparams }).catch(isWarning);
  }

  override async onBatchEnd(batch: number, logs: FitLogs = {}): Promise<void> {
    this.#batches += 1;
    if (this.membership.rank() === 0 && this.#batches % this.#batchesPerUpdate === 0) {
      const { batch: _batch, size: _size, ...metrics } = await readLogs(logs);
      await this.#write('train', this.#batches - 1, 'batch_', metrics);
      await this.#writeSystem();
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
    await this.#writeSystem();
    if (this.#histogramFreq > 0 && (epoch + 1) % this.#histogramFreq === 0)
      await this.#writeHistograms(epoch);
  }

  /** On a server, what was collected is written now. */
  override async onTrainEnd(logs?: FitLogs): Promise<void> {
    await super.onTrainEnd(logs);
    await this.#session?.close().catch(isWarning);
    for (const writer of this.#writers.values()) await writer.flush().catch(isWarning);
  }

  async #write(run: string, step: number, prefix: string, metrics: Record<string, number>): Promise<void> {
    const scalars = Object.entries(metrics).map(([metric, value]) => [prefix + metric, value] as const);
    if (scalars.length === 0) return;
    await this.#writer(run).scalars(Object.fromEntries(scalars), step).catch(isWarning);
  }

  async #writeHistograms(epoch: number): Promise<void> {
    const writer = this.#writer('train');
    for (const weight of (this.model as LayersModel).weights) {
      const values = (await weight.read().data()) as Float32Array;
      await writer.histogram(weight.name, values, epoch).catch(isWarning);
    }
  }

  /** Over the batches so far, because epochs may be long. */
  async #writeSystem(): Promise<void> {
    const now = performance.now();
    if (!this.#writesSystem || now - this.#systemAt < systemIntervalMs) return;
    const isFirst = this.#systemAt === Number.NEGATIVE_INFINITY;
    this.#systemAt = now;
    const ranks = this.#readRanks();
    if (ranks.length === 0) return;
    const scalars: [string, number][] = [
      ['samples_per_second', ranks.reduce((sum, { samplesPerSecond }) => sum + samplesPerSecond, 0)],
    ];
    for (const { rank, rssBytes, waitMs, exposedMs } of ranks) {
      scalars.push([`memory_mib/rank_${rank}`, rssBytes / 2 ** 20]);
      if (waitMs !== undefined) scalars.push([`wait_ms/rank_${rank}`, waitMs]);
      if (exposedMs !== undefined) scalars.push([`exposed_ms/rank_${rank}`, exposedMs]);
    }
    if (isFirst) await this.#writer('system').layout(systemLayout).catch(isWarning);
    await this.#write('system', this.#batches, 'horovod/', Object.fromEntries(scalars));
  }

  #knownHparams(): Record<string, HparamValue> {
    const { epochs, batchSize } = (this.params ?? {}) as { epochs?: number; batchSize?: number | null };
    // Optimizers keep it in different places, and some have none.
    const { learningRate } = this.optimizer as unknown as { learningRate?: unknown };
    return {
      optimizer: this.optimizer.getClassName(),
      ranks: this.membership.size(),
      ...(typeof learningRate === 'number' ? { learning_rate: learningRate } : {}),
      ...(batchSize ? { batch_size: batchSize } : {}),
      ...(epochs ? { epochs } : {}),
    };
  }

  #writer(run: string): SummaryWriter {
    const writer = this.#writers.get(run) ?? new SummaryWriter(joinLocation(this.#logDir, run));
    this.#writers.set(run, writer);
    return writer;
  }
}

/** On the page Custom Scalars, the ranks are lines of one chart. Tags are patterns. */
const systemLayout = {
  Horovod: {
    'Samples per second': ['horovod/samples_per_second'],
    'Waiting for other ranks (ms per step)': ['horovod/wait_ms/.*'],
    'Communication that nothing hides (ms per step)': ['horovod/exposed_ms/.*'],
    'Memory (MiB)': ['horovod/memory_mib/.*'],
  },
} as const;

/** The writer has printed a warning about it. A full disk for curves is no reason to end a training run. */
function isWarning(_error: unknown): void {}
