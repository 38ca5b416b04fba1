// Which format reads which source. Formats and decoders are made from the plan, which is plain data, in every thread that needs
// them.

import { HorovodError } from '../../errors.ts';
import { exampleDecoder } from '../formats/example/example-decoder.ts';
import type { Features } from '../formats/example/features.ts';
import { sequenceExampleDecoder } from '../formats/example/sequence-decoder.ts';
import type { Decoder } from '../formats/format.ts';
import { type TfRecordOptions, tfRecordFormat } from '../formats/tfrecord/tfrecord-format.ts';
import type { ArrayColumn, ParseNode, SourceNode, StageNode } from '../plan/nodes.ts';
import { recordKernels } from '../record-kernels.ts';
import type { SourceFormat } from './pieces.ts';
import type { Rows } from './stages.ts';

/** Which addon to use; plain data. */
export interface NativeChoice {
  readonly native: boolean;
  readonly nativePath: string | undefined;
}

/** Undefined for sources in memory. */
export function formatOf(source: SourceNode, choice: NativeChoice): SourceFormat | undefined {
  switch (source.node) {
    case 'arrayDataset':
    case 'rangeDataset':
      return undefined;
    case 'tfRecordDataset': {
      const kernels = recordKernels(choice);
      return { kind: 'bytes', format: tfRecordFormat({ ...(source.format as TfRecordOptions), kernels }) };
    }
    default:
      throw unsupported(source.node);
  }
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
  return { rows: { kind: 'bytes' }, usesFirstStage: false };
}

function decoderOf({ node, features }: ParseNode): Decoder {
  if (node === 'parseExample') return exampleDecoder(features as unknown as Features);
  const { context, sequence } = features as unknown as { context: Features; sequence: Features };
  return sequenceExampleDecoder(context, sequence);
}

function unsupported(what: string): HorovodError {
  return new HorovodError('ERR_HVD_UNSUPPORTED', `${what}() is not supported yet.`);
}
