// Errors that end a wait in any transport.

import { HorovodError } from '../../errors.ts';
import { inSeconds } from '../../net/wait.ts';
import type { Batch } from '../transport.ts';

/** `missing` are global ranks; `rank` is the one that waited. */
export function timeoutError(batch: Batch, rank: number, missing: readonly number[]): HorovodError {
  const isOne = missing.length === 1;
  const who =
    missing.length === 0
      ? 'no other rank has called a collective'
      : `${isOne ? 'rank' : 'ranks'} ${missing.join(', ')} ${isOne ? 'has' : 'have'} not arrived`;
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `rank ${rank} waited ${inSeconds(batch.timeoutMs)} in ${batch.label}, but ${who}. ` +
      'The usual cause is an if around a collective, or a rank that is stuck or stopped. ' +
      'A longer timeoutMs helps only if a rank is really that slow.',
    { rank: missing[0] },
  );
}

/** `seen`: what happened to the connection, as a verb: 'was closed by the other side'. */
export function connectionLost(
  lost: { readonly rank: number; readonly hostname: string | undefined },
  rank: number,
  seen: string,
): HorovodError {
  return new HorovodError(
    'ERR_HVD_PEER_LOST',
    `rank ${lost.rank} on ${lost.hostname ?? '?'} is gone: its connection to rank ${rank} ${seen}. ` +
      'Its process or its machine has died, or the network between the hosts is down.',
    { rank: lost.rank },
  );
}
