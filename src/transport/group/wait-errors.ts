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

/** `address`: of the other end, as `rank` sees it. */
export function connectionTampered(
  peer: { readonly rank: number; readonly hostname: string | undefined; readonly address: string },
  rank: number,
): HorovodError {
  return new HorovodError(
    'ERR_HVD_TAMPERED',
    `rank ${rank} received bytes on its encrypted connection with rank ${peer.rank} on ${peer.hostname ?? '?'} (${peer.address}) ` +
      'that this rank did not send: a record was altered, repeated or left out on the way. ' +
      'A device or program between the hosts changes the traffic. The job was stopped, and none of these bytes were used.',
    { rank: peer.rank },
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
