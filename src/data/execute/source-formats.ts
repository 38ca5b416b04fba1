// Which format reads which source. Formats and decoders are made from the plan, which is plain data, in every thread that needs
// them.

import type { ReadHandle } from '../../files/file-system.ts';
import { expandPatterns } from '../../files/glob.ts';
import { locationOf } from '../../files/location.ts';
import type { Files } from '../../files/registry.ts';
import { type CsvOptions, csvDecoder, csvFormat, csvHeader } from '../formats/csv/csv-format.ts';
import { exampleDecoder } from '../formats/example/example-decoder.ts';
import type { Features } from '../formats/example/features.ts';
import { sequenceExampleDecoder } from '../formats/example/sequence-decoder.ts';
import type { Decoder } from '../formats/format.ts';
import { listImageFolder } from '../formats/images/image-folder.ts';
import { decodeJsonLine, decodeLine } from '../formats/json-lines/json-lines-decoder.ts';
import { linesFormat } from '../formats/lines/lines-format.ts';
import { splitMember } from '../formats/npy/npz-member.ts';
import { type ParquetOptions, parquetFormat } from '../formats/parquet/parquet-format.ts';
import { type TfRecordOptions, tfRecordFormat } from '../formats/tfrecord/tfrecord-format.ts';
import type { ArrayColumn, ParseNode, SourceNode, StageNode } from '../plan/nodes.ts';
import { recordKernels } from '../record-kernels.ts';
import { imageFiles } from './image-files.ts';
import { npyColumns } from './npy-columns.ts';
import type { SourceFormat } from './pieces.ts';
import type { Rows } from './stages.ts';

/** Which addon to use; plain data. */
export interface NativeChoice {
  readonly native: boolean;
  readonly nativePath: string | undefined;
}

/** Undefined for sources in memory. `open`: for formats that read files of their own. */
export async function formatOf(
  source: SourceNode,
  choice: NativeChoice,
  open: (location: string) => Promise<ReadHandle>,
): Promise<SourceFormat | undefined> {
  const { format } = source;
  switch (source.node) {
    case 'tfRecordDataset': {
      const kernels = recordKernels(choice);
      return { kind: 'bytes', format: tfRecordFormat({ ...(format as TfRecordOptions), kernels }) };
    }
    case 'textLineDataset':
      return { kind: 'bytes', format: linesFormat() };
    case 'jsonLinesDataset':
      return { kind: 'bytes', format: linesFormat({ skipsBlank: true }) };
    case 'csvDataset':
      return { kind: 'bytes', format: csvFormat(format as unknown as CsvOptions) };
    case 'npyDataset':
      return { kind: 'elements', ...npyColumns(format['arrays'] as Record<string, string>, open) };
    case 'parquetDataset':
      return { kind: 'elements', format: await parquetFormat(format as unknown as ParquetOptions) };
    case 'imageFolderDataset':
      return {
        kind: 'elements',
        format: await imageFiles(format as unknown as Parameters<typeof imageFiles>[0]),
      };
    default:
      return undefined;
  }
}

/** The files of a source, and what only they say: the columns of a CSV file, the classes of images. */
export async function resolveSource(source: SourceNode, files: Files): Promise<SourceNode> {
  const { format, paths } = source;
  if (source.node === 'imageFolderDataset') {
    const labels = format['labels'] as readonly string[] | undefined;
    const found = await listImageFolder(files, locationOf(paths[0] as string), { labels });
    const images = found.images.map(({ location }) => location);
    return { ...source, paths: images, format: { ...format, labels: found.labels } };
  }
  if (source.node === 'npyDataset') {
    // One of the arrays stands for all.
    return { ...source, paths: [splitMember(paths[0] as string)[0]] };
  }
  if (source.node !== 'csvDataset') return source;
  const [first] = await expandPatterns(files, paths);
  await using file = await (await files.fileSystem(first as string)).open(first as string);
  return { ...source, format: { ...format, names: await csvHeader(file, format as unknown as CsvOptions) } };
}

/** How records become elements: by the source itself, or by the first stage; and whether that stage is used up by it. */
export function rowsOf(
  source: SourceNode,
  stages: readonly StageNode[],
  columns: readonly ArrayColumn[] | undefined,
): { rows: Rows; usesFirstStage: boolean } {
  const [first] = stages;
  if (source.node === 'arrayDataset') {
    return { rows: { kind: 'arrays', columns: columns ?? [] }, usesFirstStage: false };
  }
  if (source.node === 'rangeDataset') {
    return { rows: { kind: 'range', start: source.format['start'] as number }, usesFirstStage: false };
  }
  if (first?.node === 'parseExample' || first?.node === 'parseSequenceExample') {
    return { rows: { kind: 'decoder', decoder: decoderOf(first) }, usesFirstStage: true };
  }
  return { rows: rowsOfSource(source), usesFirstStage: false };
}

function rowsOfSource({ node, format }: SourceNode): Rows {
  switch (node) {
    case 'textLineDataset':
      return { kind: 'values', valueOf: decodeLine };
    case 'jsonLinesDataset':
      return { kind: 'values', valueOf: decodeJsonLine };
    case 'csvDataset': {
      const names = format['names'] as readonly string[];
      return { kind: 'decoder', decoder: csvDecoder(format as unknown as CsvOptions, names) };
    }
    default:
      return { kind: 'bytes' };
  }
}

function decoderOf({ node, features }: ParseNode): Decoder {
  if (node === 'parseExample') return exampleDecoder(features as unknown as Features);
  const { context, sequence } = features as unknown as { context: Features; sequence: Features };
  return sequenceExampleDecoder(context, sequence);
}
