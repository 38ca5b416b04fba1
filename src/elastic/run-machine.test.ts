// Every state of the loop with every event that can follow.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, errorCodes, HorovodError } from '../errors.ts';
import { firstState, nextState, type RunState } from './run-machine.ts';

const seat = {
  generation: 3,
  rank: 0,
  size: 1,
  workers: [4],
  joined: [],
  lost: [],
  previousSize: 2,
  since: [3],
};
const lost = new HorovodError('ERR_HVD_PEER_LOST', 'rank 1 was lost.', { rank: 1 });
const error = (code: ErrorCode) => new HorovodError(code, 'of a test.');

test('a worker reports, forms, synchronizes, trains, reports that it is done, and returns', () => {
  let state: RunState<number> = firstState;
  state = nextState(state, { type: 'assigned', assignment: { kind: 'seat', ...seat } }, 4);
  assert.deepEqual(state, { name: 'forming', seat, cause: undefined });
  state = nextState(state, { type: 'formed' }, 4);
  assert.deepEqual(state, { name: 'syncing', seat, cause: undefined });
  state = nextState(state, { type: 'synced' }, 4);
  assert.deepEqual(state, { name: 'training', seat });
  state = nextState(state, { type: 'returned', value: 9 }, 4);
  assert.deepEqual(state, { name: 'reporting', goesBack: false, done: { value: 9 } });
  assert.deepEqual(nextState(state, { type: 'assigned', assignment: { kind: 'finished' } }, 4), {
    name: 'returned',
    value: 9,
  });
  // Another one was lost: it takes part again.
  state = nextState(state, { type: 'assigned', assignment: { kind: 'seat', ...seat } }, 4);
  assert.equal(state.name, 'forming');
});

test('the cause of a reset stays the cause until training goes on', () => {
  let state: RunState<number> = { name: 'training', seat };
  state = nextState(state, { type: 'threw', error: lost }, 4);
  assert.deepEqual(state, { name: 'reporting', goesBack: true, cause: lost });
  state = nextState(state, { type: 'assigned', assignment: { kind: 'seat', ...seat } }, 4);
  state = nextState(state, { type: 'threw', error: error('ERR_HVD_TIMEOUT') }, 4);
  assert.deepEqual(state, { name: 'reporting', goesBack: true, cause: lost });
});

/** Codes after which a worker goes on, by the state in which they are thrown. */
const goesOn: Record<'reporting' | 'forming' | 'syncing' | 'training', readonly ErrorCode[]> = {
  reporting: [],
  forming: [
    'ERR_HVD_SHUT_DOWN',
    'ERR_HVD_TIMEOUT',
    'ERR_HVD_PEER_LOST',
    'ERR_HVD_HOST',
    'ERR_HVD_RENDEZVOUS',
    'ERR_HVD_SHARED_MEMORY',
  ],
  syncing: [
    'ERR_HVD_SHUT_DOWN',
    'ERR_HVD_TIMEOUT',
    'ERR_HVD_PEER_LOST',
    'ERR_HVD_HOST',
    'ERR_HVD_RENDEZVOUS',
    'ERR_HVD_SHARED_MEMORY',
  ],
  training: ['ERR_HVD_SHUT_DOWN', 'ERR_HVD_TIMEOUT', 'ERR_HVD_PEER_LOST', 'ERR_HVD_HOSTS_UPDATED'],
};

for (const name of ['reporting', 'forming', 'syncing', 'training'] as const) {
  test(`errors in ${name}: only those that may be the fault of other ranks are survived`, () => {
    const state: RunState<number> = name === 'reporting' ? { name, goesBack: false } : { name, seat };
    const survived = (Object.keys(errorCodes) as ErrorCode[]).filter((code) => {
      const next = nextState(state, { type: 'threw', error: error(code) }, 4);
      if (next.name === 'failed') return false;
      assert.equal(next.name, 'reporting');
      // At a notice nothing is lost.
      if (next.name === 'reporting') assert.equal(next.goesBack, code !== 'ERR_HVD_HOSTS_UPDATED');
      return true;
    });
    assert.deepEqual(survived, goesOn[name]);
    const own = new TypeError('of the user');
    assert.deepEqual(nextState(state, { type: 'threw', error: own }, 4), { name: 'failed', error: own });
  });
}

test('a driver that has no seat for a worker ends its run', () => {
  const after = (assignment: Parameters<typeof nextState>[1] & { type: 'assigned' }) => {
    const next = nextState(firstState, assignment, 4);
    return next.name === 'failed' ? String(next.error) : next.name;
  };
  assert.match(after({ type: 'assigned', assignment: { kind: 'removed', why: 'x' } }), /ERR_HVD_REMOVED/);
  assert.match(
    after({ type: 'assigned', assignment: { kind: 'failed', code: 'ERR_HVD_TOO_FEW_RANKS', message: 'x' } }),
    /ERR_HVD_TOO_FEW_RANKS: x/,
  );
  assert.match(after({ type: 'assigned', assignment: { kind: 'finished' } }), /not done/);
  assert.throws(() => nextState(firstState, { type: 'synced' }, 4), /synced in the state reporting/);
});
