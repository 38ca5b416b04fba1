// For tests of what must fail.

import assert from 'node:assert/strict';
import { HorovodError } from '../../src/errors.ts';

/** The HorovodError a promise ends with; fails if it ends well or otherwise. */
export async function errorOf(promise: Promise<unknown>): Promise<HorovodError> {
  const error = await promise.then(
    () => assert.fail('it did not fail'),
    (reason: unknown) => reason,
  );
  if (!HorovodError.is(error)) throw error;
  return error;
}
