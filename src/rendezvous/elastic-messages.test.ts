// Reports and assignments as they travel, and what is none.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProtocolError } from '../net/frames.ts';
import {
  type Assignment,
  assignmentError,
  decodeAssignment,
  decodeReady,
  encodeAssignment,
  encodeReady,
  type Ready,
} from './elastic-messages.ts';

const seat = {
  kind: 'seat',
  generation: 2,
  rank: 1,
  size: 2,
  workers: [3, 1],
  joined: [3],
  lost: [{ rank: 0, host: 'alpha', how: 'was killed by SIGKILL' }],
  previousSize: 2,
  since: [2, 1],
} as const;

test('every report arrives as it was sent', () => {
  const reports: Ready[] = [
    { generation: 0, commit: -1, host: 'alpha', pid: 12 },
    { generation: 3, commit: 17, host: 'beta', pid: 12, isDone: true },
    {
      generation: 3,
      commit: 17,
      host: 'beta',
      pid: 12,
      cause: { code: 'ERR_HVD_PEER_LOST', message: 'm', worker: 4 },
    },
    { generation: 3, commit: 0, host: '', pid: 0, cause: { code: 'ERR_HVD_TIMEOUT', message: '' } },
  ];
  for (const report of reports) assert.deepEqual(decodeReady(encodeReady(report)), report);
});

test('every assignment arrives as it was sent', () => {
  const assignments: Assignment[] = [
    seat,
    { kind: 'finished' },
    { kind: 'removed', why: 'its host was taken away' },
    { kind: 'failed', code: 'ERR_HVD_RESET_LIMIT', message: 'enough' },
  ];
  for (const assignment of assignments) {
    assert.deepEqual(decodeAssignment(encodeAssignment(assignment)), assignment);
  }
});

test('a text with a wrong, missing or unknown field is no report', () => {
  const good = { generation: 1, commit: 2, host: 'a', pid: 3 };
  for (const wrong of [
    'nonsense',
    '[]',
    JSON.stringify({ ...good, generation: -1 }),
    JSON.stringify({ ...good, commit: -2 }),
    JSON.stringify({ ...good, isDone: false }),
    JSON.stringify({ ...good, more: 1 }),
    JSON.stringify({ ...good, pid: undefined }),
    JSON.stringify({ ...good, cause: { code: 'ERR_OTHER', message: '' } }),
    JSON.stringify({ ...good, cause: 'text' }),
    JSON.stringify({ ...good, cause: { code: 'ERR_HVD_TIMEOUT', message: '', rank: 1 } }),
  ]) {
    assert.throws(() => decodeReady(wrong), ProtocolError, wrong);
  }
});

test('a text with a wrong, missing or unknown field is no assignment', () => {
  for (const wrong of [
    JSON.stringify({ kind: 'toString' }),
    JSON.stringify({ kind: 'finished', more: 1 }),
    JSON.stringify({ kind: 'removed' }),
    JSON.stringify({ kind: 'failed', code: 'ERR_HVD_DEADLOCK', message: '' }),
    JSON.stringify({ ...seat, generation: 0 }),
    JSON.stringify({ ...seat, rank: 2 }),
    JSON.stringify({ ...seat, size: 3 }),
    JSON.stringify({ ...seat, workers: [1, 1] }),
    JSON.stringify({ ...seat, workers: [-1, 1] }),
    JSON.stringify({ ...seat, lost: [{ rank: 0 }] }),
  ]) {
    assert.throws(() => decodeAssignment(wrong), ProtocolError, wrong);
  }
});

test('an assignment that ends a worker is an error with its code; others are none', () => {
  const removed = assignmentError({ kind: 'removed', why: 'its host was taken away' }, 4);
  assert.equal(removed?.code, 'ERR_HVD_REMOVED');
  assert.match(String(removed?.message), /worker 4.*its host was taken away\./);
  const failed = assignmentError({ kind: 'failed', code: 'ERR_HVD_TOO_FEW_RANKS', message: 'one left' }, 4);
  assert.equal(failed?.message, 'ERR_HVD_TOO_FEW_RANKS: one left');
  assert.equal(assignmentError({ kind: 'finished' }, 4), undefined);
  assert.equal(assignmentError(seat, 1), undefined);
});
