// The option `mirrorEvery` of elastic states with shards.

import { invalid } from '../../operations/check-options.ts';
import { describe } from '../../tensor/tensor.ts';

export function checkMirrorEvery(given: number | undefined, what: string): void {
  if (given === undefined || (Number.isInteger(given) && given > 0)) return;
  throw invalid(what, `mirrorEvery is a whole number from 1, not ${describe(given)}`);
}
