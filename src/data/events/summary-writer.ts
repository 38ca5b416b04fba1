// SummaryWriter: what TensorBoard shows, from any training loop. One rank writes, the others do nothing, so that a script needs no `if`.
//
// A call takes a copy of its values at once and appends in the background, one event after the other. Its promise resolves when the
// event is in the file (on a server: when it is in memory, to be written within 10 s). Nobody has to wait for it: a write that fails
// is a warning, and the error of the next flush() or close(). Watching must not end a training run whose disk is full.

import { createLog } from '../../console/log.ts';
import { defaultFiles } from '../../context/default/default-files.ts';
import { HorovodError } from '../../errors.ts';
import { locationOf, nameOf } from '../../files/location.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { describe } from '../../tensor/tensor.ts';
import { bucketsOf } from './buckets.ts';
import { EventFile } from './event-file.ts';
import { type ImageInput, toPng } from './images.ts';
import { logdir } from './logdir.ts';
import { rankOfThisProcess } from './rank-of-this-process.ts';
import {
  type HparamValue,
  histogramValue,
  imageValue,
  type Layout,
  layoutValue,
  scalarValue,
  sessionEndValue,
  sessionStartValue,
  summaryEvent,
  textValue,
} from './summary-message.ts';

export interface SummaryWriterOptions {
  /** The rank that writes. Default: 0. */
  readonly rank?: number | undefined;
}

export interface HistogramOptions {
  /** Default: 30. */
  readonly buckets?: number | undefined;
}

export interface HparamsOptions {
  /** Runs of one group are shown as one: several runs with the same hyperparameters. Default: the name of the folder. */
  readonly group?: string | undefined;
}

const maxBuckets = 10_000;

export class SummaryWriter implements AsyncDisposable {
  /** The folder, as an absolute path or a URL. */
  readonly dir: string;
  readonly #rank: number;
  /** Of this process, when it was last known: summaries may be written after shutdown(), too. */
  #isWriting: boolean | undefined;
  #file: EventFile | undefined;
  #last: Promise<unknown> = Promise.resolve();
  /** The first one since the last flush(). */
  #failure: { readonly error: unknown } | undefined;
  #hasWarned = false;
  #hasSession = false;
  #closing: Promise<void> | undefined;

  /**
   * Summaries go to a file in `dir`, which is made with the first one: a path or a URL, such as hdfs://…. The page of TensorBoard names
   * a run by its folder, so give each run a folder of its own.
   */
  constructor(dir: string | URL = logdir(), { rank = 0 }: SummaryWriterOptions = {}) {
    if (!(dir instanceof URL) && (typeof dir !== 'string' || dir === ''))
      throw wrong('SummaryWriter', `dir must be a folder, not ${describe(dir)}`);
    if (!Number.isSafeInteger(rank) || rank < 0)
      throw wrong('SummaryWriter', `rank must be a rank (0, 1, …), not ${describe(rank)}`);
    this.dir = locationOf(dir);
    this.#rank = rank;
  }

  /** A point of a curve. NaN and infinite values are shown as such. */
  scalar(tag: string, value: number, step: number): Promise<void> {
    return this.scalars({ [checkTag('scalar', tag)]: value }, step);
  }

  /** A point of each of several curves. */
  scalars(values: Readonly<Record<string, number>>, step: number): Promise<void> {
    const entries = entriesOf('scalars', values);
    for (const [tag, value] of entries) {
      checkTag('scalars', tag);
      if (typeof value !== 'number')
        throw wrong(
          'scalars',
          `the value of ${JSON.stringify(tag)} must be a number, not ${describe(value)}`,
        );
    }
    return this.#append('scalars', step, () => entries.map(([tag, value]) => scalarValue(tag, value)));
  }

  /** How values are distributed, such as the weights of a layer. Values that are not finite are left out. */
  histogram(
    tag: string,
    values: ArrayLike<number>,
    step: number,
    { buckets = 30 }: HistogramOptions = {},
  ): Promise<void> {
    checkTag('histogram', tag);
    if (!Number.isSafeInteger(buckets) || buckets < 1 || buckets > maxBuckets)
      throw wrong('histogram', `buckets must be from 1 to ${maxBuckets}, not ${describe(buckets)}`);
    if (typeof values?.length !== 'number' || (values.length > 0 && typeof values[0] !== 'number'))
      throw wrong('histogram', `values must be an array of numbers, not ${describe(values)}`);
    return this.#append('histogram', step, () => [histogramValue(tag, bucketsOf(values, buckets))]);
  }

  /** One image, or several of the same size side by side: pixels, or PNG files. */
  image(tag: string, image: ImageInput | readonly ImageInput[], step: number): Promise<void> {
    checkTag('image', tag);
    const images = (Array.isArray(image) ? image : [image]) as readonly ImageInput[];
    return this.#append('image', step, () => {
      const files = images.map(toPng);
      const [first] = files;
      if (first === undefined) throw wrong('image', 'the list of images is empty');
      const other = files.find(({ width, height }) => width !== first.width || height !== first.height);
      if (other !== undefined)
        throw wrong(
          'image',
          `the images of one tag have one size, not ${first.width} × ${first.height} and ${other.width} × ${other.height}`,
        );
      return [
        imageValue(
          tag,
          first,
          files.map(({ bytes }) => bytes),
        ),
      ];
    });
  }

  /** Text in Markdown. */
  text(tag: string, markdown: string, step: number): Promise<void> {
    checkTag('text', tag);
    if (typeof markdown !== 'string') throw wrong('text', `expected a string, not ${describe(markdown)}`);
    return this.#append('text', step, () => [textValue(tag, markdown)]);
  }

  /**
   * The hyperparameters of this run, for the page HParams, beside the last values of its scalars. Call it once, at the start; close()
   * marks the run as complete.
   */
  hparams(
    values: Readonly<Record<string, HparamValue>>,
    { group = nameOf(this.dir) }: HparamsOptions = {},
  ): Promise<void> {
    const entries = entriesOf('hparams', values);
    for (const [name, value] of entries) {
      checkTag('hparams', name);
      const isValue = typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value);
      if (!isValue)
        throw wrong(
          'hparams',
          `${JSON.stringify(name)} must be a finite number, a string or a boolean, not ${describe(value)}`,
        );
    }
    if (typeof group !== 'string') throw wrong('hparams', `group must be a string, not ${describe(group)}`);
    this.#hasSession = true;
    return this.#append('hparams', 0, () => [
      sessionStartValue(Date.now() / 1000, group, Object.fromEntries(entries)),
    ]);
  }

  /** Charts with several curves, on the page Custom Scalars: `{ Training: { loss: ['train/loss', 'validation/loss'] } }`. */
  layout(layout: Layout): Promise<void> {
    for (const [category, charts] of entriesOf('layout', layout)) {
      for (const [chart, tags] of entriesOf(`layout: ${JSON.stringify(category)}`, charts)) {
        if (!Array.isArray(tags) || tags.length === 0 || !tags.every((tag) => typeof tag === 'string'))
          throw wrong(
            'layout',
            `the chart ${JSON.stringify(chart)} must be a list of tags, not ${describe(tags)}`,
          );
      }
    }
    return this.#append('layout', 0, () => [layoutValue(layout)]);
  }

  /** Everything is in the file when it resolves, on servers too. Rejects with the first failure since the last flush(). */
  async flush(): Promise<void> {
    await this.#last;
    try {
      await this.#file?.flush();
    } catch (error) {
      this.#fail(error);
    }
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure.error;
  }

  /** Writes what is left. Nothing can be written afterwards. A second call waits for the first one. */
  close(): Promise<void> {
    if (this.#closing === undefined) {
      if (this.#hasSession) void this.#append('close', 0, () => [sessionEndValue(Date.now() / 1000)]);
      this.#closing = this.flush();
    }
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** `values` is called at once, and only on the rank that writes. */
  #append(called: string, step: number, values: () => readonly Buffer[]): Promise<void> {
    if (this.#closing !== undefined)
      throw wrong(called, 'the writer has been closed; make another one, with a folder of its own');
    if (!Number.isSafeInteger(step) || step < 0)
      throw wrong(called, `step must be a whole number ≥ 0, not ${describe(step)}`);
    if (!this.#isOnWritingRank()) return Promise.resolve();
    const event = summaryEvent(Date.now() / 1000, step, values());
    const written = this.#last.then(async () => {
      this.#file ??= await EventFile.create(defaultFiles(), this.dir);
      await this.#file.append(event);
    });
    this.#last = written.catch((error: unknown) => this.#fail(error));
    // Whoever does not wait for `written` gets its error from flush().
    return written;
  }

  #isOnWritingRank(): boolean {
    const rank = rankOfThisProcess();
    // -1: not known any more, after shutdown().
    if (rank >= 0 || this.#isWriting === undefined) this.#isWriting = rank === this.#rank;
    return this.#isWriting;
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    const reason = HorovodError.is(error) ? error.detail : String(error);
    createLog(readSettings(processEnvironment()), this.#rank).write(
      'warning',
      `Summaries for TensorBoard cannot be written to ${this.dir}: ${reason} Training goes on without them.`,
    );
  }
}

function entriesOf<T>(called: string, values: Readonly<Record<string, T>>): [string, T][] {
  if (typeof values !== 'object' || values === null || Array.isArray(values))
    throw wrong(called, `expected an object, not ${describe(values)}`);
  const entries = Object.entries(values);
  if (entries.length === 0) throw wrong(called, 'the object is empty');
  return entries;
}

function checkTag(called: string, tag: string): string {
  if (typeof tag === 'string' && tag !== '') return tag;
  throw wrong(called, `a tag must be a string that is not empty, not ${describe(tag)}`);
}

function wrong(called: string, what: string): HorovodError {
  const name = called === 'SummaryWriter' ? called : `SummaryWriter.${called}`;
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${name}: ${what}.`);
}
