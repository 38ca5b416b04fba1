// `horovod data write SOURCE... PATTERN`: turns a folder of images, a CSV file or arrays of NumPy into shards of TFRecord files.

import { inBytes } from '../../console/progress.ts';
import { writeTfRecords } from '../../data/tfrecord-writer.ts';
import { settingError } from '../../settings/setting.ts';
import { type CommandOutput, parseOptions, type Subcommand } from '../subcommand.ts';
import { openSource, type Source } from './sources.ts';

export const dataHelp = `Usage: horovod data write SOURCE OUTPUT [options]

Write TFRecord files that horovod/data and TensorFlow read. SOURCE is one of:

  FOLDER         a folder with a folder of images for each class (needs sharp): features image (raw uint8) and label
  FILE.csv       a table, whose columns are given by --columns: one feature for each
  FILE.npz       arrays of NumPy with the same number of rows: one feature for each

OUTPUT is a path, or with --shards a pattern such as 'train-{shard}-of-{shards}.tfrecord'. The command prints how to read
the files. Files have their names when they are whole; if the command fails, there are none.

Options:
  --shards N           Number of files (default 1). Records are dealt round robin
  --compression KIND   none (default), gzip or zlib
  --size HEIGHTxWIDTH  Images: resize and crop to this size
  --channels N         Images: 1 (grey), 3 (default) or 4
  --keep-encoded       Images: store the files as they are, not decoded; the feature is a byte string
  --columns LIST       CSV: columns and types, such as label:int32,x:float32,name:string
  --delimiter C        CSV: the character between fields (default ,)
  -h, --help           Print this help

The exit code is 0, 1 if something cannot be read or written, or 2 for usage errors.
`;

const progressIntervalMs = 2000;

export const dataCommand: Pick<Subcommand, 'run'> = {
  async run(argv, output) {
    const { values, positionals } = parseOptions(argv, {
      shards: { type: 'string' },
      compression: { type: 'string' },
      size: { type: 'string' },
      channels: { type: 'string' },
      'keep-encoded': { type: 'boolean' },
      columns: { type: 'string' },
      delimiter: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    });
    if (values.help) {
      output.out(dataHelp);
      return 0;
    }
    const [verb, source, pattern, ...more] = positionals;
    if (verb !== 'write')
      throw settingError(`expected "write SOURCE OUTPUT"${verb === undefined ? '' : `, not "${verb}"`}.`);
    if (source === undefined || pattern === undefined)
      throw settingError('write: SOURCE or OUTPUT is missing.');
    if (more.length > 0) throw settingError(`write: unexpected ${more.join(', ')}.`);
    const shards = wholeNumber('--shards', values.shards ?? '1');
    const { compression = 'none' } = values;
    if (compression !== 'none' && compression !== 'gzip' && compression !== 'zlib') {
      throw settingError(`--compression is none, gzip or zlib, not ${compression}.`);
    }
    if (shards > 1 && !pattern.includes('{shard}')) {
      throw settingError(
        `--shards ${shards} needs {shard} in ${pattern}, such as train-{shard}-of-{shards}.tfrecord.`,
      );
    }
    const opened = await openSource(source, {
      size: values.size === undefined ? undefined : sizeOf(values.size),
      channels: values.channels === undefined ? undefined : wholeNumber('--channels', values.channels),
      keepsEncoded: values['keep-encoded'] ?? false,
      columns: values.columns,
      delimiter: values.delimiter,
    });
    return write(opened, pattern, { shards, compression }, output);
  },
};

async function write(
  source: Source,
  pattern: string,
  options: { shards: number; compression: 'none' | 'gzip' | 'zlib' },
  output: CommandOutput,
): Promise<number> {
  let shownAtMs = performance.now();
  let bytes = 0;
  const counted = async function* () {
    for await (const values of source.elements()) {
      for (const value of Object.values(values)) if (ArrayBuffer.isView(value)) bytes += value.byteLength;
      yield values;
    }
  };
  const onProgress = (records: number) => {
    if (performance.now() - shownAtMs < progressIntervalMs) return;
    shownAtMs = performance.now();
    const of =
      source.records === undefined
        ? ''
        : ` of ${source.records} (${Math.floor((100 * records) / source.records)} %)`;
    output.error(`horovod data write: ${records}${of} records, ${inBytes(bytes)}\n`);
  };
  const { files, records } = await writeTfRecords(counted(), pattern, { ...options, onProgress });
  output.out(
    `Wrote ${records} records into ${files.length === 1 ? files[0] : `${files.length} files, the first is ${files[0]}`}\n`,
  );
  if (source.labels !== undefined)
    output.out(`Labels: ${source.labels.map((name, i) => `${i} ${name}`).join(', ')}\n`);
  const glob = options.shards > 1 ? pattern.replaceAll('{shard}', '*').replaceAll('{shards}', '*') : pattern;
  output.out(
    `Read them with tfRecordDataset('${glob}').parseExample({\n${source.features.map((each) => `  ${each},\n`).join('')}})\n`,
  );
  return 0;
}

function wholeNumber(flag: string, text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw settingError(`${flag} is a whole number from 1, not ${JSON.stringify(text)}.`);
}

function sizeOf(text: string): readonly [height: number, width: number] {
  const match = /^(\d+)x(\d+)$/.exec(text);
  if (match === null)
    throw settingError(`--size is HEIGHTxWIDTH, such as 224x224, not ${JSON.stringify(text)}.`);
  return [Number(match[1]), Number(match[2])];
}
