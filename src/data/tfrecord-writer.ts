// TfRecordWriter and writeTfRecords(), as users of horovod/data see them: one file, or a data set in shards that several ranks can
// write together.

import { defaultFiles } from '../context/default/default-files.ts';
import { HorovodError } from '../errors.ts';
import { describe } from '../tensor/tensor.ts';
import type { ExampleInputs } from './formats/example/encode.ts';
import type { Compression } from './formats/inflate.ts';
import {
  createRecordFile,
  RecordWriter,
  type TfRecordWriterOptions,
  type WriterParts,
} from './formats/tfrecord/writer.ts';
import { recordKernels } from './record-kernels.ts';

/**
 * Writes a TFRecord file, on any file system. The file has its name when close() resolves, whole, or never: disposing the
 * writer before close() removes what was written.
 *
 *   await using writer = await TfRecordWriter.create('train.tfrecord');
 *   for (const { image, label } of samples) await writer.writeExample({ image, label });
 *   await writer.close();
 */
export class TfRecordWriter extends RecordWriter {
  static async create(path: string | URL, options: TfRecordWriterOptions = {}): Promise<TfRecordWriter> {
    const parts: WriterParts = { files: defaultFiles(), kernels: recordKernels() };
    return new TfRecordWriter(await createRecordFile(path, options, parts), parts, options);
  }
}

export interface WriteTfRecordsOptions {
  /** Number of files. Default 1. */
  readonly shards?: number;
  readonly compression?: Compression;
  /** Also write index files. Default true. */
  readonly index?: boolean;
  /** This rank writes the shards whose number is `rank` modulo `size`. Default: 0 of 1, which writes all. */
  readonly rank?: number;
  readonly size?: number;
  readonly signal?: AbortSignal;
  /** Called after each record with the number of records this rank has written. */
  readonly onProgress?: (records: number) => void;
}

export interface WrittenTfRecords {
  /** Of this rank. */
  readonly files: readonly string[];
  readonly records: number;
}

/**
 * Deals elements to shards round robin: element i goes to shard i modulo `shards`. `{shard}` and `{shards}` in the pattern become
 * 00000 and 00016. Elements are serialized records (Uint8Array) or values for Examples. With several ranks, each goes through
 * all elements and writes its own shards; all pass the same elements. If it fails, this rank's files do not appear.
 */
export async function writeTfRecords(
  elements: AsyncIterable<Uint8Array | ExampleInputs> | Iterable<Uint8Array | ExampleInputs>,
  pattern: string,
  options: WriteTfRecordsOptions = {},
): Promise<WrittenTfRecords> {
  const { shards = 1, rank = 0, size = 1, compression, index, signal, onProgress } = options;
  checkWhole('shards', shards, 1);
  checkWhole('size', size, 1);
  checkWhole('rank', rank, 0);
  if (rank >= size) throw invalid(`rank ${rank} is not below size ${size}`);
  if (shards > 1 && !pattern.includes('{shard}')) {
    throw invalid(
      `the pattern ${JSON.stringify(pattern)} needs {shard}, such as train-{shard}-of-{shards}.tfrecord`,
    );
  }
  const writers = new Map<number, TfRecordWriter>();
  let records = 0;
  try {
    for (let shard = rank; shard < shards; shard += size) {
      writers.set(
        shard,
        await TfRecordWriter.create(shardName(pattern, shard, shards), { compression, index, signal }),
      );
    }
    let i = 0;
    for await (const element of elements) {
      signal?.throwIfAborted();
      const writer = writers.get(i++ % shards);
      if (writer === undefined) continue;
      if (element instanceof Uint8Array) await writer.write(element);
      else await writer.writeExample(element);
      records++;
      onProgress?.(records);
    }
    for (const writer of writers.values()) await writer.close();
  } finally {
    for (const writer of writers.values()) await writer.abort();
  }
  return { files: [...writers.values()].map(({ location }) => location), records };
}

/** 'train-{shard}-of-{shards}.tfrecord' → 'train-00003-of-00016.tfrecord' */
export function shardName(pattern: string, shard: number, shards: number): string {
  const digits = (value: number) => String(value).padStart(5, '0');
  return pattern.replaceAll('{shard}', digits(shard)).replaceAll('{shards}', digits(shards));
}

function checkWhole(name: string, value: unknown, min: number): void {
  if (Number.isSafeInteger(value) && (value as number) >= min) return;
  throw invalid(`${name} is a whole number from ${min}, not ${describe(value)}`);
}

function invalid(text: string): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `writeTfRecords(): ${text}.`);
}
