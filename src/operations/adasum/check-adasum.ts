// Which allreduces can be done with Adasum.

import { HorovodError } from '../../errors.ts';
import type { DType } from '../../tensor/dtype.ts';
import { isPowerOfTwo } from './slices.ts';
import { adasumDtypes } from './vectors.ts';

export function checkAdasum(dtypes: readonly DType[], size: number, what: string): void {
  if (!isPowerOfTwo(size)) {
    throw new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `${what}: Adasum combines ranks in pairs and pairs of pairs, so the number of ranks must be a power of two, not ${size}. ` +
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
