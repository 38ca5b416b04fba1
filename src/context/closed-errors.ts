// The errors of a context that has been closed: by shutdown(), or because its generation of an elastic job is over.

import { HorovodError } from '../errors.ts';

export function shutDownError(rank: number): HorovodError {
  return new HorovodError(
    'ERR_HVD_SHUT_DOWN',
    `rank ${rank} has called shutdown(); call init() before using collectives again.`,
  );
}

export function staleError(generation: number): HorovodError {
  return new HorovodError('ERR_HVD_STALE', staleText(generation));
}

/** For the function `what`, called on a context that was closed with `closure`. */
export function closedError(what: string, rank: number, closure: HorovodError): HorovodError {
  return closure.code === 'ERR_HVD_STALE'
    ? new HorovodError('ERR_HVD_STALE', `${what}: ${closure.detail}`)
    : new HorovodError('ERR_HVD_SHUT_DOWN', `${what}: rank ${rank} has shut down; call init() again first.`);
}

function staleText(generation: number): string {
  return (
    `this belongs to generation ${generation} of the job, which is over. Make it again in each generation, for example ` +
    'in state.onReset().'
  );
}
