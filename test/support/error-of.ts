// For tests of calls that must fail.

import assert from 'node:assert/strict';
import { HorovodError } from '../../src/errors.ts';

/** The HorovodError that a promise rejects with. Fails if the promise resolves or rejects with another error. */
export async function errorOf(promise: Promise<unknown>): Promise<HorovodError> {
  const error = await promise.then(
    () => assert.fail('it did not fail'),
    (reason: unknown) => reason,
  );
  if (!HorovodError.is(error)) throw error;
  return error;
}
