// What a rank of fitOnParquet() does: reads its share of the rows, trains the model, and saves it after every epoch together with the
// place in the data, so that a later job can go on there. In an elastic job it commits now and then, and continues when ranks are lost.

import * as tf from '@tensorflow/tfjs';
import type { Dataset } from '../../../data/dataset.ts';
import { parquetDataset } from '../../../data/file-sources.ts';
import type { DataState } from '../../../data/order/state.ts';
import { run } from '../../../elastic/run.ts';
import { writeFileAtomically } from '../../../files/atomic-write.ts';
import { invalid } from '../../../operations/check-options.ts';
import type { Tensor } from '../../../tensor/tensor.ts';
import { currentContext, rank } from '../../context.ts';
import { fileSystems } from '../../file-systems.ts';
import { tensors } from '../../tensorflow/dataset/tensors.ts';
import { DistributedOptimizer, isDistributed } from '../../tensorflow/optimizer/distributed-optimizer.ts';
import { type FitLogs, HorovodCallback, readLogs } from '../callbacks/horovod-callback.ts';
import { type AnyCallback, list } from '../callbacks/list.ts';
import { MetricAverageCallback } from '../callbacks/metric-average.ts';
import { ProgressCallback } from '../callbacks/progress.ts';
import { TensorBoard } from '../callbacks/tensorboard.ts';
import { KerasState } from '../elastic/keras-state.ts';
import { loadModel } from '../load-model.ts';
import { saveModel } from '../save-model.ts';
import { batchTensors, type Columns } from './batch-tensors.ts';

/** Metrics by name, one value for each epoch. */
export type History = Readonly<Record<string, readonly number[]>>;

/** Rows of Parquet files. */
export interface ParquetRows {
  readonly files: readonly string[];
  /** Of all files together. */
  readonly rows: number;
  /** Rows to use. Default: all of them. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** What all ranks get, as plain data. */
export interface ParquetTraining {
  /** For errors. */
  readonly what: string;
  readonly training: ParquetRows;
  readonly validation: ParquetRows | undefined;
  readonly featureCols: readonly string[];
  readonly labelCols: readonly string[];
  /** Samples per step and rank. */
  readonly batchSize: number;
  readonly validationBatchSize: number;
  readonly epochs: number;
  readonly shuffle: { readonly seed: number; readonly pool: number } | false;
  readonly batchesPerCommit: number;
  readonly verbose: boolean;
  /** Where a saved model is; undefined if a function of the user makes it. */
  readonly modelLocation: string | undefined;
  readonly checkpoint: string;
  readonly historyFile: string;
  readonly logs: string;
  /** Where the job goes on. */
  readonly resume:
    | { readonly epoch: number; readonly data: DataState; readonly history: History }
    | undefined;
}

/** What of it is the user's own. */
export interface OwnParts {
  readonly makeModel: () => Promise<unknown>;
  readonly makeCallbacks: () => Promise<unknown>;
}

export interface TrainedOnParquet {
  readonly epochs: number;
  readonly history: History;
}

type Row = Record<string, Tensor>;

export async function trainOnParquet(job: ParquetTraining, own: OwnParts): Promise<TrainedOnParquet> {
  const { what, training, validation, resume, featureCols, labelCols } = job;
  const model = await modelOf(job, own);
  const toModel = batchTensors(model, featureCols, labelCols, what);
  const data = datasetOf(job, training, job.shuffle).batch(job.batchSize);
  const validationData = validation && datasetOf(job, validation, false).batch(job.validationBatchSize);
  if (resume !== undefined) data.restore(resume.data);
  const state = new KerasState({
    model,
    data,
    ...(validationData === undefined ? {} : { validationData }),
    epoch: resume?.epoch ?? 0,
    history: (resume?.history ?? {}) as Record<string, number[]>,
  });
  const rows = (training.to ?? training.rows) - (training.from ?? 0);
  await run(async (state) => {
    if (state.epoch >= job.epochs) return;
    const batches = (dataset: Dataset<unknown>) =>
      tensors(dataset).map((columns) => toModel(columns as Columns) as unknown as tf.TensorContainer);
    await model.fitDataset(batches(data) as tf.data.Dataset<{ xs: tf.Tensor; ys: tf.Tensor }>, {
      epochs: job.epochs,
      initialEpoch: state.epoch,
      verbose: 0,
      ...(validationData === undefined
        ? {}
        : { validationData: batches(validationData) as tf.data.Dataset<tf.TensorContainer> }),
      callbacks: list([
        // Before all that use metrics.
        new MetricAverageCallback(),
        ...(await ownCallbacks(own, what)),
        new TensorBoard(job.logs),
        ...(job.verbose ? [new ProgressCallback({ unit: 'rows' })] : []),
        new Progress(job, state, data, rows),
      ]),
    });
  }, state);
  return { epochs: state.epoch, history: state.history };
}

async function modelOf({ modelLocation, what }: ParquetTraining, own: OwnParts): Promise<tf.LayersModel> {
  const made = modelLocation === undefined ? await own.makeModel() : await loadModel(modelLocation);
  if (!(made instanceof tf.LayersModel)) {
    throw invalid(what, 'the function that makes the model returns something else than a model of tf.layers');
  }
  if (!made.optimizer) {
    throw invalid(what, 'the model has no optimizer; call model.compile() before you return it');
  }
  if (!isDistributed(made.optimizer)) made.optimizer = DistributedOptimizer(made.optimizer);
  return made;
}

function datasetOf(
  { featureCols, labelCols }: ParquetTraining,
  { files, rows, from = 0, to = rows }: ParquetRows,
  shuffle: ParquetTraining['shuffle'],
): Dataset<Row> {
  const columns = Object.fromEntries(
    [...featureCols, ...labelCols].map((name) => [name, 'float32' as const]),
  );
  let dataset: Dataset<Row> = parquetDataset(files, { columns });
  // Before shuffle(), these choose rows of the files.
  if (to < rows) dataset = dataset.take(to);
  if (from > 0) dataset = dataset.skip(from);
  return shuffle === false ? dataset : dataset.shuffle(shuffle.pool, { seed: shuffle.seed });
}

async function ownCallbacks({ makeCallbacks }: OwnParts, what: string): Promise<AnyCallback[]> {
  const made = (await makeCallbacks()) ?? [];
  if (Array.isArray(made)) return made as AnyCallback[];
  throw invalid(what, 'the function callbacks returns a list of callbacks');
}

type ParquetState = KerasState<{
  data: Dataset<unknown>;
  epoch: number;
  history: Record<string, number[]>;
}>;

/** Keeps count of epochs and metrics, saves the model, and commits. */
class Progress extends HorovodCallback {
  readonly #job: ParquetTraining;
  readonly #state: ParquetState;
  readonly #data: Dataset<unknown>;
  readonly #rows: number;
  #batches = 0;

  constructor(job: ParquetTraining, state: ParquetState, data: Dataset<unknown>, rows: number) {
    super();
    this.#job = job;
    this.#state = state;
    this.#data = data;
    this.#rows = rows;
  }

  override async onBatchEnd(batch: number, logs?: FitLogs): Promise<void> {
    await super.onBatchEnd(batch, logs);
    this.#batches += 1;
    if (!currentContext().isElastic || this.#batches % this.#job.batchesPerCommit !== 0) return;
    const { position } = await this.#data.state();
    // The last batch is committed with its epoch: between the two there is no place from which fitDataset() could start.
    if (position > 0 && position < this.#rows) this.#state.commitSync();
  }

  override async onEpochEnd(epoch: number, logs: FitLogs = {}): Promise<void> {
    await super.onEpochEnd(epoch, logs);
    const { history } = this.#state;
    const metrics = Object.entries(await readLogs(logs));
    this.#state.history = Object.fromEntries(
      metrics.map(([metric, value]) => [metric, [...(history[metric] ?? []).slice(0, epoch), value]]),
    );
    this.#state.epoch = epoch + 1;
    const data = await this.#data.state();
    await saveModel(this.model, this.#job.checkpoint, { data });
    if (rank() === 0) {
      const text = `${JSON.stringify({ epochs: epoch + 1, history: this.#state.history })}\n`;
      await writeFileAtomically(fileSystems(), this.#job.historyFile, Buffer.from(text));
    }
    this.#state.commitSync();
  }
}
