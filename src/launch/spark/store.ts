// Store: where the data, checkpoints and logs of trainings are, in the layout of Horovod's Spark estimators, so that jobs of Python
// and of TypeScript find each other's files. It lies on any file system of src/files: a folder, hdfs:// or a registered scheme.

import { defaultFiles } from '../../context/default/default-files.ts';
import { parquetFilesIn } from '../../data/formats/parquet/parquet-files.ts';
import { writeFileAtomically } from '../../files/atomic-write.ts';
import { fileError } from '../../files/file-system.ts';
import { folderOf, isHttp, joinLocation, locationOf, schemeOf } from '../../files/location.ts';
import { readFile, statusOf } from '../../files/read-file.ts';
import { checkNames, invalid } from '../../operations/check-options.ts';
import { describe } from '../../tensor/tensor.ts';

/** Where the parts of a store are, if not at their places below its prefix. */
export interface StoreOptions {
  /** Default: `intermediate_train_data` below the prefix. */
  readonly trainPath?: string | undefined;
  /** Default: `intermediate_val_data`. */
  readonly valPath?: string | undefined;
  /** Default: `intermediate_test_data`. */
  readonly testPath?: string | undefined;
  /** Default: `runs`. */
  readonly runsPath?: string | undefined;
}

const optionNames = ['trainPath', 'valPath', 'testPath', 'runsPath'] as const;

export class Store {
  /** The location that the store was made with, absolute. */
  readonly prefixPath: string;
  readonly #train: string;
  readonly #validation: string;
  readonly #test: string;
  readonly #runs: string;

  private constructor(prefixPath: string, options: StoreOptions) {
    const placeOf = (given: string | undefined, name: string) =>
      given === undefined ? joinLocation(prefixPath, name) : checkedLocation(given, 'Store.create()');
    this.prefixPath = prefixPath;
    this.#train = placeOf(options.trainPath, 'intermediate_train_data');
    this.#validation = placeOf(options.valPath, 'intermediate_val_data');
    this.#test = placeOf(options.testPath, 'intermediate_test_data');
    this.#runs = placeOf(options.runsPath, 'runs');
  }

  /** A store in a folder: a path, `file://…`, `hdfs://…` or a URL of a registered scheme. Nothing is read or written yet. */
  static create(prefixPath: string | URL, options: StoreOptions = {}): Store {
    const what = 'Store.create()';
    checkNames(options, optionNames, what);
    return new Store(checkedLocation(prefixPath, what), options);
  }

  /** The folder of the training data. With `index`, that of one of several data sets. */
  trainDataPath(index?: number): string {
    return indexed(this.#train, index);
  }

  /** The folder of the validation data. */
  validationDataPath(index?: number): string {
    return indexed(this.#validation, index);
  }

  /** The folder of the test data. */
  testDataPath(index?: number): string {
    return indexed(this.#test, index);
  }

  /** The folder with a folder for each run. */
  runsPath(): string {
    return this.#runs;
  }

  runPath(runId: string): string {
    return joinLocation(this.#runs, checkedRunId(runId));
  }

  /** The model of a run as it was after its last epoch, with the state of its optimizer: loadModel() of `horovod/keras` reads it. */
  checkpointPath(runId: string): string {
    return joinLocation(this.runPath(runId), 'checkpoint');
  }

  /** The event files of a run, for TensorBoard. */
  logsPath(runId: string): string {
    return joinLocation(this.runPath(runId), 'logs');
  }

  /** Whether there is a file or folder at this location. */
  async exists(location: string): Promise<boolean> {
    return (await statusOf(defaultFiles(), checkedLocation(location, 'exists()'))) !== undefined;
  }

  /** Whether there are Parquet files in this folder. */
  async isParquetDataset(location: string): Promise<boolean> {
    const files = await parquetFilesIn(defaultFiles(), checkedLocation(location, 'isParquetDataset()'));
    return files.length > 0;
  }

  read(location: string): Promise<Uint8Array> {
    return readFile(defaultFiles(), checkedLocation(location, 'read()'));
  }

  /** Writes a file as a whole, with the folders above it: readers see the old one or the new one. */
  async writeText(location: string, text: string): Promise<void> {
    const place = checkedLocation(location, 'writeText()');
    const folder = folderOf(place);
    await (await defaultFiles().fileSystem(folder)).mkdir(folder);
    await writeFileAtomically(defaultFiles(), place, Buffer.from(text));
  }

  /** The runs that have begun, sorted. */
  async runIds(): Promise<string[]> {
    const files = defaultFiles();
    if ((await statusOf(files, this.#runs)) === undefined) return [];
    const entries = await (await files.fileSystem(this.#runs)).list(this.#runs);
    return entries
      .filter(({ kind }) => kind === 'folder')
      .map(({ name }) => name)
      .sort();
  }
}

function checkedLocation(given: unknown, what: string): string {
  if (!(given instanceof URL) && (typeof given !== 'string' || given === '')) {
    throw invalid(
      what,
      `expected a path or a URL, such as 'hdfs:///Projects/demo/store', not ${describe(given)}`,
    );
  }
  const place = locationOf(given);
  if (isHttp(place)) throw fileError(`${what}: nothing can be written to ${schemeOf(place)}://.`);
  return place.replace(/(?<=[^/:])\/+$/, '');
}

function indexed(path: string, index: number | undefined): string {
  if (index === undefined) return path;
  if (Number.isSafeInteger(index) && index >= 0) return `${path}.${index}`;
  throw invalid('Store', `index is a whole number from 0, not ${describe(index)}`);
}

/** Also the name of a folder. */
export function checkedRunId(runId: unknown): string {
  if (typeof runId === 'string' && /^[\w][\w.\-=+@]*$/.test(runId)) return runId;
  throw invalid('runId', `it is a name of letters, digits and _ . - = + @, not ${describe(runId)}`);
}
