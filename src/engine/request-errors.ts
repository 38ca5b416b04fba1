// What can be wrong with a request on its way, in words.

import { listRanks } from '../console/list-ranks.ts';
import { HorovodError } from '../errors.ts';
import { labelOf, nameOf } from './description.ts';
import { areOptional, type Request } from './request.ts';

export function duplicateNameError(rank: number, { description }: Request): HorovodError {
  return new HorovodError(
    'ERR_HVD_DUPLICATE_NAME',
    `rank ${rank}: ${labelOf(description)} has the same name as an operation that is still ` +
      'in flight. Use another name, or wait for the first one.',
    { tensor: nameOf(description) },
  );
}

export function detachedError(rank: number, { description }: Request): HorovodError {
  return new HorovodError(
    'ERR_HVD_DETACHED',
    `rank ${rank}: a buffer of ${labelOf(description)} was detached (transferred, or its ` +
      'WebAssembly memory grew) before the operation had run. Wait for the operation first.',
    { rank, tensor: nameOf(description) },
  );
}

/** `missing` are the global ranks that did not ask for it. */
export function overdueError(
  rank: number,
  { description, timeoutMs }: Request,
  missing: readonly number[],
): HorovodError {
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `rank ${rank} waited ${Number((timeoutMs / 1000).toPrecision(3))} s in ` +
      `${labelOf(description)}, but ${listRanks(missing)} did not call it. ` +
      'The usual cause is an if around a collective, or an operation with another name.',
    { rank: missing[0], tensor: nameOf(description) },
  );
}

/** A rank has left in good order, and all that is pending is optional: other process sets may go on. */
export function isOnlyItsChannels({ code }: HorovodError, pending: readonly Request[]): boolean {
  return code === 'ERR_HVD_SHUT_DOWN' && areOptional(pending);
}
