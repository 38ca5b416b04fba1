import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { HorovodError } from './errors.ts';

describe('HorovodError', () => {
  test('has its text with the code as message, and without it as detail', () => {
    const error = new HorovodError('ERR_HVD_TIMEOUT', 'rank 3 waited too long.');
    assert.equal(error.message, 'ERR_HVD_TIMEOUT: rank 3 waited too long.');
    assert.equal(error.detail, 'rank 3 waited too long.');
  });

  test('has only the fields that are known', () => {
    const error = new HorovodError('ERR_HVD_PEER_LOST', 'rank 3 died.', { rank: 3, signal: undefined });
    assert.deepEqual(Object.keys(error).sort(), ['code', 'name', 'rank']);
    assert.doesNotMatch(inspect(error), /undefined/);
  });

  test('keeps its cause', () => {
    const cause = new Error('disk full');
    assert.equal(new HorovodError('ERR_HVD_RUN', 'it failed.', { cause }).cause, cause);
    assert.ok(!('cause' in new HorovodError('ERR_HVD_RUN', 'it failed.')));
  });
});
