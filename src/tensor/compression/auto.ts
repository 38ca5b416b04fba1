// A choice of compressors that autotune may make: the user says which of them training bears.

import { HorovodError } from '../../errors.ts';
import { describe } from '../tensor.ts';
import type { AnyCompressor, Compressor } from './compressor.ts';

/** Without autotune, and outside of gradients, it is its first choice. */
export interface AutoCompressor extends Compressor {
  readonly choices: readonly Compressor[];
}

/** `allowed`: compressors that keep nothing from step to step, so that one can follow another. */
export function autoCompressor(choices: unknown, allowed: readonly Compressor[]): AutoCompressor {
  const names = allowed.map(({ name }) => name).join(', ');
  const list = Array.isArray(choices) ? (choices as Compressor[]) : [];
  const [first] = list;
  if (first === undefined || !list.every((each) => allowed.includes(each))) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `Compression.auto: expected a list of some of ${names}, not ${describe(choices)}. Others keep what they did not send, and cannot take turns.`,
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

/** The compressor to use: the one chosen, if it is among the choices, else the first. */
export function chosenCompressor<C extends AnyCompressor>(
  compressor: C,
  chosen: string | undefined,
): C | Compressor {
  if (!isAuto(compressor)) return compressor;
  return compressor.choices.find(({ name }) => name === chosen) ?? (compressor.choices[0] as Compressor);
}
