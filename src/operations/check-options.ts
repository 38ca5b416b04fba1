// Checks of options that are not those of a collective. `what` is the function that was called; errors begin with it.

import { HorovodError } from '../errors.ts';
import { describe } from '../tensor/tensor.ts';

export function checkNames(options: unknown, names: readonly string[], what: string): void {
  if (typeof options !== 'object' || options === null) {
    throw invalid(what, `options are an object, not ${describe(options)}`);
  }
  const unknown = Object.keys(options).find((key) => !names.includes(key));
  if (unknown !== undefined) {
    throw invalid(what, `there is no option ${unknown}; there are ${names.join(', ')}`);
  }
}

/** An option that is true or false. */
export function readFlag(options: object, key: string, otherwise: boolean, what: string): boolean {
  const value: unknown = (options as Record<string, unknown>)[key] ?? otherwise;
  if (typeof value === 'boolean') return value;
  throw invalid(what, `${key} is true or false, not ${describe(value)}`);
}

export function invalid(what: string, reason: string): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${what}: ${reason}.`);
}
