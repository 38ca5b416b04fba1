// Which errors of an elastic job are the end of a generation, and which are the end of elastic.run().

import { type ErrorCode, HorovodError } from '../errors.ts';

/** Other ranks are lost, or count as lost. */
const failures: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'ERR_HVD_PEER_LOST',
  // Who is at fault is decided by the driver.
  'ERR_HVD_TIMEOUT',
  // Of a peer: it has left while others still worked.
  'ERR_HVD_SHUT_DOWN',
]);

/** The same, for ranks that are still coming together. */
const failuresWhileForming: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  ...failures,
  'ERR_HVD_RENDEZVOUS',
  'ERR_HVD_SHARED_MEMORY',
  'ERR_HVD_HOST',
]);

/** Ranks were lost: elastic.run() goes back to the last commit and goes on with the others. HorovodInternalError in Horovod. */
export function isFailure(error: unknown): error is HorovodError {
  return HorovodError.is(error) && failures.has(error.code);
}

/** Ranks come or go, and nothing is lost: elastic.run() goes on with the new ones. HostsUpdatedInterrupt in Horovod. */
export function isHostsUpdated(error: unknown): error is HorovodError {
  return HorovodError.is(error) && error.code === 'ERR_HVD_HOSTS_UPDATED';
}

/** Like isFailure(), for what is thrown before a generation is complete. */
export function isFailureWhileForming(error: unknown): error is HorovodError {
  return HorovodError.is(error) && failuresWhileForming.has(error.code);
}
