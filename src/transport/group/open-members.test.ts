// What members do together while their group opens.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { HorovodError } from '../../errors.ts';
import { makeExchange } from '../../testing/exchange.ts';
import type { GroupSpec } from '../transport.ts';
import { exchangePrepared } from './open-members.ts';

function specsOf(members: readonly number[]): GroupSpec[] {
  const exchangeOf = makeExchange(members.length);
  return members.map((_, index) => ({ id: 1, members, index, timeoutMs: 1000, exchange: exchangeOf(index) }));
}

describe('exchangePrepared()', () => {
  test('gives every member what all have prepared', async () => {
    const all = await Promise.all(
      specsOf([4, 7]).map((spec) => exchangePrepared(spec, () => `of ${spec.index}`)),
    );
    assert.deepEqual(all, [
      ['of 0', 'of 1'],
      ['of 0', 'of 1'],
    ]);
  });

  test('a failure of one member is an error on all, with its code and rank, instead of a wait', async () => {
    const full = new HorovodError('ERR_HVD_SHARED_MEMORY', '/dev/shm is full');
    const outcomes = await Promise.allSettled(
      specsOf([4, 7]).map((spec) =>
        exchangePrepared(spec, () => {
          if (spec.index === 0) throw full;
          return '';
        }),
      ),
    );
    const [own, other] = outcomes.map((outcome) => (outcome as PromiseRejectedResult).reason);
    assert.equal(own, full);
    assert.equal(other.code, 'ERR_HVD_SHARED_MEMORY');
    assert.equal(other.rank, 4);
    assert.match(other.message, /rank 4: \/dev\/shm is full/);
  });
});
