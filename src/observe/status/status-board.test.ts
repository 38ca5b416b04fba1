import assert from 'node:assert/strict';
import { test } from 'node:test';
import { statusOf } from '../../../test/support/status-examples.ts';
import { ControlBlock } from '../../control/control-block.ts';
import { decodeRankStatus } from './rank-status.ts';
import { ControlBlockBoard } from './status-board.ts';

test('ranks of init({ ranks }) are numbered in pages as in the whole job, and among themselves as they know each other', (t) => {
  const block = ControlBlock.create(4);
  t.after(() => block.close());
  const board = new ControlBlockBoard(block, [3, 1]);
  const pending = [{ label: 'allreduce "grad"', waitedMs: 5, missing: [1] }];
  board.publish(statusOf({ rank: 0, pending }));
  const page = decodeRankStatus(block.readStatus(3)?.text ?? '');
  assert.deepEqual([page?.rank, page?.pending[0]?.missing], [3, [1]]);
  board.publish(statusOf({ rank: 1, pending: [{ label: 'barrier', waitedMs: 5, missing: [0] }] }));
  const other = decodeRankStatus(block.readStatus(1)?.text ?? '');
  assert.deepEqual([other?.rank, other?.pending[0]?.missing], [1, [3]]);
  const read = board.read(1);
  assert.deepEqual([read?.rank, read?.pending[0]?.missing], [1, [0]]);
  assert.equal(board.read(2), undefined);
});
