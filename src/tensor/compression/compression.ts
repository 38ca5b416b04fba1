// The compressors that the option `compression` accepts, and how a name selects one.

import { HorovodError } from '../../errors.ts';
import { describe } from '../tensor.ts';
import { type AutoCompressor, autoCompressor } from './auto.ts';
import type { AnyCompressor, Compressor, ReducingCompressor } from './compressor.ts';
import { bf16, fp16, type HalfContext } from './half.ts';
import { type Int8Options, int8, int8With } from './int8.ts';
import { type PowerSgdOptions, powersgd } from './powersgd.ts';
import { type TopKOptions, topk } from './top-k.ts';

export type { AnyCompressor, Compressor, ReducingCompressor } from './compressor.ts';

const none: Compressor<undefined> = {
  name: 'none',
  compress: (tensor) => ({ tensor, context: undefined }),
  decompress: (tensor) => tensor,
};

function auto(choices: readonly Compressor[]): AutoCompressor {
  return autoCompressor(choices, [none, fp16 as Compressor, bf16 as Compressor]);
}

/** The built-in compressors. The option `compression` also accepts a Compressor or ReducingCompressor that you write. */
export const Compression: {
  readonly none: Compressor<undefined>;
  /** Half of the bytes; 11 bits of precision, up to 65504. */
  readonly fp16: Compressor<HalfContext>;
  /** Half of the bytes; 8 bits of precision, the range of float32. */
  readonly bf16: Compressor<HalfContext>;
  /** A quarter of the bytes: blocks of 256 values with a scale each. */
  readonly int8: ReducingCompressor;
  readonly int8With: (options: Int8Options) => ReducingCompressor;
  /** Only the largest values; the others once they have accumulated. */
  readonly topk: (ratio: number, options?: TopKOptions) => ReducingCompressor;
  /** Matrices as products of two thin ones. */
  readonly powersgd: (rank: number, options?: PowerSgdOptions) => ReducingCompressor;
  /** Autotune chooses one of these for gradients: some of none, fp16 and bf16. Without autotune it is the first. */
  readonly auto: (choices: readonly Compressor[]) => AutoCompressor;
} = { none, fp16, bf16, int8, int8With, topk, powersgd, auto };

/** By name: `fp16`, `topk:0.01`. */
export type CompressionName = 'none' | 'fp16' | 'bf16' | 'int8' | `topk:${number}` | `powersgd:${number}`;

const examples = "'none', 'fp16', 'bf16', 'int8', 'topk:0.01' (a ratio), 'powersgd:4' (a rank)";

const plainOnes = new Map<string, AnyCompressor>([none, fp16, bf16, int8].map((each) => [each.name, each]));
const makers = new Map<string, (parameter: number) => ReducingCompressor>([
  ['topk', topk],
  ['powersgd', powersgd],
]);

/** The compressor that a user has passed; none by default. */
export function compressorOf(given: unknown, what: string): AnyCompressor {
  if (given === undefined) return none;
  if (typeof given === 'string') return namedCompressor(given, what);
  const { compress, decompress, reduce, name } = Object(given) as Record<string, unknown>;
  const isOne =
    typeof reduce === 'function' || (typeof compress === 'function' && typeof decompress === 'function');
  if (isOne && typeof name === 'string') return given as AnyCompressor;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    isOne
      ? `${what}: a compressor needs a name (a string), so that the ranks can check that all use the same one; this one has ${describe(name)}.`
      : `${what}: compression must be one of hvd.Compression, the name of one (${examples}) or your own Compressor, not ${describe(given)}.`,
  );
}

export function namedCompressor(text: string, what: string): AnyCompressor {
  const [name, parameter, ...rest] = text.split(':') as [string, ...string[]];
  const plain = plainOnes.get(name);
  if (plain !== undefined && parameter === undefined) return plain;
  const make = makers.get(name);
  if (make !== undefined && parameter !== undefined && parameter.trim() !== '' && rest.length === 0) {
    return make(Number(parameter));
  }
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `${what}: there is no compression ${describe(text)}; there are ${examples}.`,
  );
}
