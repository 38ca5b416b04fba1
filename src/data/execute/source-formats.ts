// Which format reads which source. Formats and decoders are made from the plan, which is plain data, in every thread that needs
// them.

import { type CsvOptions, csvDecoder, csvFormat } from '../formats/csv/csv-format.ts';
import { exampleDecoder } from '../formats/example/example-decoder.ts';
import type { Features } from '../formats/example/features.ts';
import { sequenceExampleDecoder } from '../formats/example/sequence-decoder.ts';
import type { Decoder, ElementFormat } from '../formats/format.ts';
import { type ImageOptions, imageDecoder } from '../formats/images/image-folder.ts';
import { imageRecordsDecoder, imageRecordsFormat } from '../formats/images/image-records.ts';
import { jsonLineDecoder, lineDecoder } from '../formats/json-lines/json-lines-decoder.ts';
import { linesFormat } from '../formats/lines/lines-format.ts';
import { type NpyColumn, npyRowsDecoder, npyRowsFormat } from '../formats/npy/npy-rows.ts';
import { type ParquetOptions, parquetFormat } from '../formats/parquet/parquet-format.ts';
import { type TfRecordOptions, tfRecordFormat } from '../formats/tfrecord/tfrecord-format.ts';
import type { ArrayColumn, ParseNode, SourceNode, StageNode } from '../plan/nodes.ts';
import { recordKernels } from '../record-kernels.ts';
import { openPartOf } from './module-parts.ts';
import type { IndexedFile, SourceFormat } from './pieces.ts';
import type { Rows } from './stages.ts';

/** Which addon to use; plain data. */
export interface NativeChoice {
  readonly native: boolean;
  readonly nativePath: string | undefined;
}

/** Undefined for sources in memory. `file`: any of the source, if there is one already. */
export function formatOf(
  source: SourceNode,
  choice: NativeChoice,
  file?: IndexedFile,
): SourceFormat | undefined {
  switch (source.node) {
    case 'arrayDataset':
    case 'rangeDataset':
      return undefined;
    case 'tfRecordDataset': {
      const kernels = recordKernels(choice);
      return { kind: 'bytes', format: tfRecordFormat({ ...(source.format as TfRecordOptions), kernels }) };
    }
    case 'csvDataset':
      return { kind: 'bytes', format: csvFormat(source.format as unknown as CsvOptions) };
    case 'textLineDataset':
      return { kind: 'bytes', format: linesFormat() };
    case 'jsonLinesDataset':
      return { kind: 'bytes', format: linesFormat({ skipsBlank: true }) };
    case 'npyDataset':
      return { kind: 'bytes', format: npyRowsFormat((file?.columns ?? []) as readonly NpyColumn[]) };
    case 'imageFolderDataset':
      return { kind: 'bytes', format: imageRecordsFormat() };
    case 'parquetDataset':
      return { kind: 'elements', format: loadedParquet(source.format as unknown as ParquetOptions) };
    case 'moduleDataset':
      return { kind: 'parts', open: openPartOf(source) };
  }
}

/**
 * How records become elements: by the source itself, or by the first stage; and whether that stage is used up by it.
 * `known`: what the index says of columns.
 */
export async function rowsOf(
  source: SourceNode,
  stages: readonly StageNode[],
  columns: readonly ArrayColumn[] | undefined,
  known: unknown,
): Promise<{ rows: Rows; usesFirstStage: boolean }> {
  const [first] = stages;
  if (first?.node === 'parseExample' || first?.node === 'parseSequenceExample') {
    return { rows: { kind: 'decoder', decoder: decoderOf(first) }, usesFirstStage: true };
  }
  return { rows: await sourceRows(source, columns, known), usesFirstStage: false };
}

async function sourceRows(
  source: SourceNode,
  columns: readonly ArrayColumn[] | undefined,
  known: unknown,
): Promise<Rows> {
  switch (source.node) {
    case 'arrayDataset':
      return { kind: 'arrays', columns: columns ?? [] };
    case 'rangeDataset':
      return { kind: 'range', start: source.format['start'] as number };
    case 'csvDataset': {
      const options = source.format as unknown as CsvOptions;
      // A rank without files decodes nothing.
      const header = (known ?? Object.keys(options.columns)) as readonly string[];
      return { kind: 'decoder', decoder: csvDecoder(options, header) };
    }
    case 'textLineDataset':
      return { kind: 'decoder', decoder: lineDecoder(), isSingle: true };
    case 'jsonLinesDataset':
      return { kind: 'decoder', decoder: jsonLineDecoder() };
    case 'npyDataset':
      return { kind: 'decoder', decoder: npyRowsDecoder((known ?? []) as readonly NpyColumn[]) };
    case 'imageFolderDataset': {
      const decoder = await imageDecoder(source.format as unknown as ImageOptions);
      return { kind: 'decoder', decoder: imageRecordsDecoder(decoder) };
    }
    case 'parquetDataset':
    case 'moduleDataset':
      return { kind: 'elements' };
    default:
      return { kind: 'bytes' };
  }
}

function decoderOf({ node, features }: ParseNode): Decoder {
  if (node === 'parseExample') return exampleDecoder(features as unknown as Features);
  const { context, sequence } = features as unknown as { context: Features; sequence: Features };
  return sequenceExampleDecoder(context, sequence);
}

/** Loads the package when a file is opened. */
function loadedParquet(options: ParquetOptions): ElementFormat {
  let loading: Promise<ElementFormat> | undefined;
  const load = () => {
    loading ??= parquetFormat(options);
    return loading;
  };
  return {
    name: 'parquet',
    index: async (file) => (await load()).index(file),
    read: async (file, first, count) => (await load()).read(file, first, count),
  };
}
