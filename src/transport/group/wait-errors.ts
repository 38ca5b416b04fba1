// The texts of errors that end a wait in any transport.

import { HorovodError } from '../../errors.ts';
import type { Batch } from '../transport.ts';

/** `missing` are global ranks; `rank` is the one that waited. */
export function timeoutError(batch: Batch, rank: number, missing: readonly number[]): HorovodError {
  const seconds = Number((batch.timeoutMs / 1000).toPrecision(3));
  const who =
    missing.length === 0
      ? 'no other rank has asked for anything'
      : `${missing.length === 1 ? 'rank' : 'ranks'} ${missing.join(', ')} ${missing.length === 1 ? 'has' : 'have'} not come`;
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `rank ${rank} waited ${seconds} s in ${batch.label} and ${who}. ` +
      'Usually an if around a collective, or a rank that is stuck or stopped; ' +
      'a longer timeoutMs helps only where a rank is that slow.',
    { rank: missing[0] },
  );
}
