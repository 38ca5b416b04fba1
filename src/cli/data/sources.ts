// What `horovod data write` can read: elements as values of Examples, and the features with which they are read again.

import { extname } from 'node:path';
import { defaultFiles } from '../../context/default/default-files.ts';
import { type CsvOptions, csvDecoder, csvFormat, csvHeader } from '../../data/formats/csv/csv-format.ts';
import type { ExampleInput, ExampleInputs } from '../../data/formats/example/encode.ts';
import type { ElementValue } from '../../data/formats/format.ts';
import { imageDecoder, listImageFolder } from '../../data/formats/images/image-folder.ts';
import { type NpyHeader, npyFormat, readNpyHeader } from '../../data/formats/npy/npy-format.ts';
import { npzMembers, openNpzMember } from '../../data/formats/npy/npz-member.ts';
import { HorovodError } from '../../errors.ts';
import type { ReadHandle } from '../../files/file-system.ts';
import { locationOf } from '../../files/location.ts';
import { readFile, statusOf } from '../../files/read-file.ts';
import type { Files } from '../../files/registry.ts';
import { settingError } from '../../settings/setting.ts';
import { type DType, dtypes } from '../../tensor/dtype.ts';

export interface Source {
  /** How many, where that is known. */
  readonly records?: number;
  readonly labels?: readonly string[];
  /** As the user writes them: "label: FixedLenFeature([], 'int32')". */
  readonly features: readonly string[];
  elements(): AsyncIterable<ExampleInputs>;
}

export interface SourceRequest {
  readonly size?: readonly [height: number, width: number] | undefined;
  readonly channels?: number | undefined;
  readonly keepsEncoded: boolean;
  readonly columns?: string | undefined;
  readonly delimiter?: string | undefined;
}

export async function openSource(path: string, request: SourceRequest): Promise<Source> {
  const files = defaultFiles();
  const location = locationOf(path);
  const status = await statusOf(files, location);
  if (status === undefined) throw new HorovodError('ERR_HVD_DATA_FILE', `${path} does not exist.`);
  if (status.kind === 'folder') return imageSource(files, location, request);
  const extension = extname(path).toLowerCase();
  if (extension === '.csv' || extension === '.tsv') return csvSource(files, location, request, extension);
  if (extension === '.npz') return npzSource(files, location);
  throw settingError(`write: ${path} is no folder, .csv or .npz file.`);
}

async function imageSource(files: Files, root: string, request: SourceRequest): Promise<Source> {
  const { labels, images } = await listImageFolder(files, root);
  const { size, channels = 3, keepsEncoded } = request;
  if (!keepsEncoded && size === undefined)
    throw settingError('write: images need --size HEIGHTxWIDTH or --keep-encoded.');
  if (channels !== 1 && channels !== 3 && channels !== 4)
    throw settingError(`--channels is 1, 3 or 4, not ${channels}.`);
  const decoder = keepsEncoded
    ? undefined
    : await imageDecoder({ size: size as readonly [number, number], channels });
  const image =
    decoder === undefined
      ? "image: FixedLenFeature([], 'string')"
      : `image: FixedLenFeature([${decoder.shape.join(', ')}], 'uint8')`;
  return {
    records: images.length,
    labels,
    features: [image, "label: FixedLenFeature([], 'int32')"],
    async *elements() {
      for (const { location, label } of images) {
        const content = await readFile(files, location);
        if (decoder === undefined) yield { image: content, label };
        else {
          const pixels = new Uint8Array(decoder.shape.reduce((product, each) => product * each, 1));
          await decoder.decodeInto(content, pixels, location);
          yield { image: pixels, label };
        }
      }
    },
  };
}

async function csvSource(
  files: Files,
  location: string,
  request: SourceRequest,
  extension: string,
): Promise<Source> {
  if (request.columns === undefined)
    throw settingError('write: a CSV file needs --columns, such as label:int32,x:float32.');
  const columns = columnsOf(request.columns);
  const options: CsvOptions = {
    columns,
    delimiter: request.delimiter ?? (extension === '.tsv' ? '\t' : ','),
    quotedNewlines: true,
  };
  return {
    features: Object.entries(columns).map(
      ([name, dtype]) => `${keyOf(name)}: FixedLenFeature([], '${dtype}')`,
    ),
    async *elements() {
      await using file = await open(files, location);
      const decoder = csvDecoder(options, await csvHeader(file, options));
      for await (const { bytes, starts, lengths, count } of csvFormat(options).stream(file)) {
        for (let i = 0; i < count; i++) {
          const element = decoder.element(bytes, starts[i] as number, lengths[i] as number);
          yield Object.fromEntries(Object.entries(element).map(([name, value]) => [name, inputOf(value)]));
        }
      }
    },
  };
}

async function npzSource(files: Files, location: string): Promise<Source> {
  await using file = await open(files, location);
  const names = await npzMembers(file);
  const headers: NpyHeader[] = [];
  for (const name of names) headers.push(await readNpyHeader(await openNpzMember(file, name)));
  const rows = headers.map(({ shape }) => shape[0] as number);
  const records = rows[0] ?? 0;
  if (rows.some((each) => each !== records)) {
    const list = names.map((name, i) => `${name} ${rows[i]}`).join(', ');
    throw new HorovodError(
      'ERR_HVD_DATA_FILE',
      `${location}: the arrays have different numbers of rows: ${list}.`,
    );
  }
  return {
    records,
    features: names.map((name, i) => {
      const { dtype, shape } = headers[i] as NpyHeader;
      return `${keyOf(name)}: FixedLenFeature([${shape.slice(1).join(', ')}], '${dtype}')`;
    }),
    async *elements() {
      await using archive = await open(files, location);
      const streams = await Promise.all(
        names.map(async (name, i) => rowsOf(await openNpzMember(archive, name), headers[i] as NpyHeader)),
      );
      for (let row = 0; row < records; row++) {
        const values: [string, ExampleInput][] = [];
        for (const [i, stream] of streams.entries()) {
          const { value } = await stream.next();
          if (value !== undefined) values.push([names[i] as string, value]);
        }
        yield Object.fromEntries(values);
      }
    },
  };
}

/** The rows of an array as raw bytes, which a feature of fixed shape reads as values. */
async function* rowsOf(
  file: Awaited<ReturnType<typeof openNpzMember>>,
  header: NpyHeader,
): AsyncGenerator<Uint8Array, void, void> {
  for await (const { bytes, starts, lengths, count } of npyFormat(header).stream(file)) {
    for (let i = 0; i < count; i++) {
      const start = starts[i] as number;
      yield bytes.subarray(start, start + (lengths[i] as number));
    }
  }
}

function inputOf(value: ElementValue): ExampleInput {
  if (typeof value === 'object' && 'dtype' in value) {
    // A tensor of uint8 would be raw bytes; a column of numbers is a list of one.
    return value.dtype === 'uint8' || value.dtype === 'int8' ? Number(value.data[0]) : value;
  }
  return value as ExampleInput;
}

function columnsOf(text: string): Record<string, DType | 'string'> {
  const columns = text.split(',').map((each): [string, DType | 'string'] => {
    const at = each.lastIndexOf(':');
    const [name, dtype] = [each.slice(0, at).trim(), each.slice(at + 1).trim()];
    const isKnown = dtype === 'string' || Object.hasOwn(dtypes, dtype);
    if (at > 0 && isKnown) return [name, dtype as DType];
    throw settingError(`--columns has ${JSON.stringify(each)}; expected name:type, such as label:int32.`);
  });
  return Object.fromEntries(columns);
}

function keyOf(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
}

async function open(files: Files, location: string): Promise<ReadHandle> {
  return (await files.fileSystem(location)).open(location);
}
