// A choice of compressors for autotune: the user lists those that are acceptable for the training.

import { HorovodError } from '../../errors.ts';
import { describe } from '../tensor.ts';
import type { AnyCompressor, Compressor } from './compressor.ts';

/** Without autotune, and for anything but gradients, it behaves like its first choice. */
export interface AutoCompressor extends Compressor {
  readonly choices: readonly Compressor[];
}

/** `allowed`: compressors without state, so that autotune can switch between them. */
export function autoCompressor(choices: unknown, allowed: readonly Compressor[]): AutoCompressor {
  const names = allowed.map(({ name }) => name).join(', ');
  const list = Array.isArray(choices) ? (choices as Compressor[]) : [];
  const [first] = list;
  if (first === undefined || !list.every((each) => allowed.includes(each))) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `Compression.auto: expected a list of some of ${names}, not ${describe(choices)}. ` +
        'Other compressors keep state from step to step, so autotune cannot switch between them.',
    );
  }
  const distinct = [...new Set(list)];
  return {
    name: `auto(${distinct.map(({ name }) => name).join(', ')})`,
    choices: distinct,
    compress: (tensor) => first.compress(tensor),
    decompress: (tensor, context) => first.decompress(tensor, context),
  };
}

export function isAuto(compressor: AnyCompressor): compressor is AutoCompressor {
  return Array.isArray((compressor as Partial<AutoCompressor>).choices);
}

/** The compressor to use: the chosen one if it is among the choices, else the first. */
export function chosenCompressor<C extends AnyCompressor>(
  compressor: C,
  chosen: string | undefined,
): C | Compressor {
  if (!isAuto(compressor)) return compressor;
  return compressor.choices.find(({ name }) => name === chosen) ?? (compressor.choices[0] as Compressor);
}
