// One fitOnParquet(): checks the options, looks at the files and at what an earlier run has left, and starts the ranks. They all get the
// same plain data, so that a rank which joins an elastic job later starts like the others.

import type { History, ParquetRows, ParquetTraining } from '../../adapters/keras/parquet/train-on-parquet.ts';
import { savedDataState } from '../../adapters/keras/saved-data-state.ts';
import { defaultFiles } from '../../context/default/default-files.ts';
import { parquetFilesIn } from '../../data/formats/parquet/parquet-files.ts';
import { countParquetRows } from '../../data/formats/parquet/parquet-rows.ts';
import { HorovodError } from '../../errors.ts';
import { joinLocation, locationOf } from '../../files/location.ts';
import { readTextFile, statusOf } from '../../files/read-file.ts';
import { checkNames, invalid, readFlag } from '../../operations/check-options.ts';
import { describe } from '../../tensor/tensor.ts';
import { type Callee, calleeOf } from '../run/call.ts';
import { run } from '../run/run.ts';
import type { CompiledModel, FitLauncher, FitOnParquetOptions, FitResult } from './fit-options.ts';
import type { FitCall } from './fit-rank.ts';
import { checkedRunId, Store } from './store.ts';

const what = 'fitOnParquet()';

const optionNames = [
  ...['model', 'store', 'featureCols', 'labelCols', 'numProc', 'minNumProc', 'maxNumProc', 'batchSize'],
  ...['valBatchSize', 'epochs', 'validation', 'callbacks', 'runId', 'shuffle', 'batchesPerCommit', 'backend'],
  ...['env', 'verbose', 'signal', 'run'],
];

export async function startFit(options: FitOnParquetOptions): Promise<FitResult> {
  const { store, model, ...checked } = checkedOptions(options);
  const { runId = await newRunId(store), epochs, run: launch } = checked;
  const rows = await rowsOf(store, checked);
  const checkpoint = store.checkpointPath(runId);
  const logs = store.logsPath(runId);
  const historyFile = joinLocation(store.runPath(runId), 'history.json');
  const resume = await resumeOf(checkpoint, historyFile);
  if (resume !== undefined && resume.epoch >= epochs)
    return { runId, checkpoint, logs, epochs: resume.epoch, history: resume.history };
  const isResumed = resume !== undefined;
  const place = isResumed ? checkpoint : await placeOfModel(model, store, runId);
  const training: ParquetTraining = {
    what,
    ...rows,
    checkpoint,
    logs,
    historyFile,
    resume,
    epochs,
    featureCols: checked.featureCols,
    labelCols: checked.labelCols,
    batchSize: checked.batchSize,
    validationBatchSize: checked.valBatchSize,
    shuffle: checked.shuffle,
    batchesPerCommit: checked.batchesPerCommit,
    verbose: checked.verbose,
    modelLocation: typeof place === 'string' ? place : undefined,
  };
  const call: FitCall = {
    training,
    backend: checked.backend,
    model: typeof place === 'string' ? undefined : place,
    callbacks: checked.callbacks,
  };
  const { numProc, minNumProc, maxNumProc, env, signal } = checked;
  const results = await launch(new URL('./fit-rank.js', import.meta.url), {
    numProc,
    minNumProc,
    maxNumProc,
    env,
    signal,
    args: [call],
  });
  const done = results[0] as { epochs: number; history: History } | undefined;
  if (done === undefined) throw new HorovodError('ERR_HVD_RUN', `${what}: run returned no result of rank 0.`);
  return { runId, checkpoint, logs, epochs: done.epochs, history: done.history };
}

/** On this machine. */
const runHere: FitLauncher = (module, { numProc, minNumProc, maxNumProc, ...job }) =>
  run(module, { ...job, np: numProc, minNp: minNumProc, maxNp: maxNumProc });

type Checked = ReturnType<typeof checkedOptions>;

function checkedOptions(options: FitOnParquetOptions) {
  checkNames(options, optionNames, what);
  const { store, model, runId, callbacks, env, signal, validation, backend = 'auto' } = options;
  if (!(store instanceof Store)) {
    throw invalid(what, `store is ${describe(store)}; expected a Store: Store.create('hdfs:///…')`);
  }
  if (runId !== undefined) checkedRunId(runId);
  const whole = (name: keyof FitOnParquetOptions, otherwise: number): number => {
    const value: unknown = options[name] ?? otherwise;
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 1) return value;
    throw invalid(what, `${name} is ${describe(value)}; expected a whole number from 1`);
  };
  const batchSize = whole('batchSize', 32);
  const numProc = whole('numProc', options.minNumProc ?? 1);
  const { run: launch = runHere } = options;
  if (typeof launch !== 'function') {
    throw invalid(
      what,
      `run is ${describe(launch)}; expected a function that starts ranks, such as run() of horovod/spark`,
    );
  }
  if (!['auto', 'tensorflow', 'wasm', 'cpu'].includes(backend)) {
    throw invalid(what, `backend is ${describe(backend)}; expected 'auto', 'tensorflow', 'wasm' or 'cpu'`);
  }
  return {
    store,
    runId,
    env,
    signal,
    backend,
    batchSize,
    numProc,
    run: launch,
    model: checkedModel(model),
    featureCols: columnsOf(options, 'featureCols'),
    labelCols: columnsOf(options, 'labelCols'),
    minNumProc: options.minNumProc === undefined ? undefined : whole('minNumProc', 1),
    maxNumProc: options.maxNumProc === undefined ? undefined : whole('maxNumProc', 1),
    valBatchSize: whole('valBatchSize', batchSize),
    epochs: whole('epochs', 1),
    batchesPerCommit: whole('batchesPerCommit', 10),
    validation: checkedValidation(validation),
    callbacks: callbacks === undefined ? undefined : checkedCallee('callbacks', callbacks),
    shuffle: checkedShuffle(options.shuffle),
    verbose: readFlag(options, 'verbose', true, what),
  };
}

function columnsOf(options: FitOnParquetOptions, name: 'featureCols' | 'labelCols'): readonly string[] {
  const given: unknown = options[name];
  const isList = Array.isArray(given) && given.length > 0 && given.every((each) => typeof each === 'string');
  if (!isList) throw invalid(what, `${name} is ${describe(given)}; expected a list of names of columns`);
  return given as string[];
}

function checkedShuffle(given: FitOnParquetOptions['shuffle'] = {}): ParquetTraining['shuffle'] {
  if (given === false) return false;
  checkNames(given, ['seed', 'pool'], `${what}: shuffle`);
  const { seed = 0, pool = 10_000 } = given;
  if (Number.isSafeInteger(seed) && Number.isSafeInteger(pool) && pool >= 1) return { seed, pool };
  throw invalid(
    what,
    `shuffle is { seed: ${describe(seed)}, pool: ${describe(pool)} }; expected whole numbers, pool from 1`,
  );
}

function checkedValidation(given: FitOnParquetOptions['validation']): number | string | boolean {
  if (given instanceof URL || (typeof given === 'string' && given !== '')) return locationOf(given);
  if (given === undefined || typeof given === 'boolean') return given ?? false;
  if (typeof given === 'number' && given > 0 && given < 1) return given;
  throw invalid(
    what,
    `validation is ${describe(given)}; expected true (the validation data of the store), the location of Parquet files, or a ` +
      'fraction of the training data between 0 and 1',
  );
}

/** A model to save, the location of a saved one, or what makes one. */
type CheckedModel =
  | { readonly kind: 'compiled'; readonly model: CompiledModel }
  | { readonly kind: 'saved'; readonly location: string }
  | { readonly kind: 'made'; readonly by: Callee };

function checkedModel(model: unknown): CheckedModel {
  const isPlace = typeof model === 'string' || model instanceof URL;
  if (typeof model === 'function' || (isPlace && /\.[mc]?[jt]s$/i.test(String(model))))
    return { kind: 'made', by: checkedCallee('model', model) };
  if (isPlace && String(model) !== '') return { kind: 'saved', location: locationOf(model) };
  const { save, optimizer } = Object(model) as Partial<CompiledModel>;
  if (typeof save !== 'function') {
    throw invalid(
      what,
      `model is ${describe(model)}; expected a compiled model of tf.layers, its location, or a function or module that makes one`,
    );
  }
  if (!optimizer) throw invalid(what, 'the model has no optimizer; call model.compile() first');
  return { kind: 'compiled', model: model as CompiledModel };
}

function checkedCallee(option: 'model' | 'callbacks', given: unknown): Callee {
  if (Array.isArray(given)) {
    throw invalid(
      what,
      `${option} is a list; callbacks cannot be sent to other processes. Give a function that makes the list on each rank, and imports what it needs`,
    );
  }
  try {
    return calleeOf(given);
  } catch (cause) {
    if (!HorovodError.is(cause)) throw cause;
    throw invalid(what, `${option}: ${cause.detail.replace(/^run: /, '').replace(/\.$/, '')}`);
  }
}

async function newRunId(store: Store): Promise<string> {
  const seconds = Math.floor(Date.now() / 1000);
  for (let number = 0; ; number += 1) {
    const runId = number === 0 ? `keras_${seconds}` : `keras_${seconds}-${number}`;
    if (!(await store.exists(store.runPath(runId)))) return runId;
  }
}

/** The training rows, and those of the validation. */
async function rowsOf(
  store: Store,
  { validation, featureCols, labelCols }: Pick<Checked, 'validation' | 'featureCols' | 'labelCols'>,
): Promise<Pick<ParquetTraining, 'training' | 'validation'>> {
  const columns = [...new Set([...featureCols, ...labelCols])];
  const read = (location: string, kind: string) => parquetRows(location, columns, kind);
  const training = await read(store.trainDataPath(), 'training');
  if (validation === false) return { training, validation: undefined };
  if (typeof validation !== 'number') {
    const location = validation === true ? store.validationDataPath() : validation;
    return { training, validation: await read(location, 'validation') };
  }
  const { rows } = training;
  const from = rows - Math.max(1, Math.round(rows * validation));
  if (from < 1)
    throw invalid(what, `the training data has ${rows} row, too few for a validation of ${validation}`);
  return { training: { ...training, to: from }, validation: { ...training, from } };
}

async function parquetRows(location: string, columns: readonly string[], kind: string): Promise<ParquetRows> {
  const files = await parquetFilesIn(defaultFiles(), location);
  if (files.length === 0) {
    throw new HorovodError(
      'ERR_HVD_DATA_FILE',
      `${location}: there is no ${kind} data. Write it with Spark: df.write.parquet('${location}').`,
    );
  }
  const rows = await countParquetRows(defaultFiles(), files, columns);
  if (rows === 0) throw new HorovodError('ERR_HVD_DATA_FILE', `${location}: the ${kind} data has no rows.`);
  return { files, rows };
}

/** What an earlier job of this run has left. */
async function resumeOf(checkpoint: string, historyFile: string): Promise<ParquetTraining['resume']> {
  const files = defaultFiles();
  if ((await statusOf(files, joinLocation(checkpoint, 'model.json'))) === undefined) return undefined;
  const data = await savedDataState(checkpoint);
  if (data === undefined) {
    throw new HorovodError(
      'ERR_HVD_MODEL_FILE',
      `${checkpoint}: ${what} has not saved this model, because it does not say where in the data it was. Choose another runId.`,
    );
  }
  const isSaved = (await statusOf(files, historyFile)) !== undefined;
  const saved = isSaved
    ? (JSON.parse(await readTextFile(files, historyFile)) as { history: History })
    : undefined;
  return { epoch: data.epoch, data, history: saved?.history ?? {} };
}

/** The location of the model that the ranks load, or what they call to make it. */
async function placeOfModel(model: CheckedModel, store: Store, runId: string): Promise<string | Callee> {
  if (model.kind === 'made') return model.by;
  if (model.kind === 'saved') return model.location;
  const location = joinLocation(store.runPath(runId), 'initial-model');
  const { fileHandler } = await import('../../adapters/keras/model-files/file-handler.ts');
  await model.model.save(fileHandler(location) as never, { includeOptimizer: true });
  return location;
}
