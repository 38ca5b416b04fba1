// The part of an allreduce that is Adasum's own: what it can be asked of, and its parts as a composite.

import { HorovodError } from '../errors.ts';
import type { DType } from '../tensor/dtype.ts';
import { type AdasumTensor, adasum } from './adasum/adasum.ts';
import { isPowerOfTwo } from './adasum/slices.ts';
import { adasumDtypes } from './adasum/vectors.ts';
import type { Composite } from './composite.ts';
import type { Members } from './plans.ts';

/** Refuses sizes and dtypes that have no Adasum. */
export function checkAdasum(dtypes: readonly DType[], { ranks }: Members, what: string): void {
  if (!isPowerOfTwo(ranks.length)) {
    throw new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `${what}: Adasum combines ranks in pairs and pairs of pairs, so their number must be a power of two, and it is ${ranks.length}. ` +
        'Start 1, 2, 4, 8, … ranks, give a process set of that many, or use Average.',
    );
  }
  const wrong = dtypes.find((dtype) => !adasumDtypes.includes(dtype));
  if (wrong === undefined) return;
  throw new HorovodError(
    'ERR_HVD_INVALID_DTYPE',
    `${what}: Adasum takes ${adasumDtypes.join(', ')}, not ${wrong}. Use Sum or Average for it.`,
  );
}

/** `result` is called when the outputs are filled in. */
export function* adasumComposite<R>(
  tensors: readonly AdasumTensor[],
  scales: { readonly prescale: number; readonly postscale: number },
  { ranks, index, hostOf }: Members,
  result: () => R,
): Composite<R> {
  yield* adasum({ tensors, ...scales, index, size: ranks.length, hostOf });
  return result();
}
