import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Description } from '../description.ts';
import { findMismatch } from './mismatch.ts';

const base: Description = {
  key: 'x',
  kind: 'allreduce',
  dtypes: ['float32'],
  shapes: [[2, 3]],
  isGrouped: false,
  op: 'Sum',
  prescale: 1,
  postscale: 1,
  root: undefined,
  detail: '',
};

const mismatch = (a: Partial<Description>, b: Partial<Description>) =>
  findMismatch([
    { rank: 0, description: { ...base, ...a } },
    { rank: 5, description: { ...base, ...b } },
  ]);

describe('findMismatch()', () => {
  test('ranks that agree, and no ranks at all, have none', () => {
    assert.equal(mismatch({}, {}), undefined);
    assert.equal(findMismatch([]), undefined);
  });

  const table: [string, Partial<Description>, Partial<Description>, string][] = [
    ['kind', {}, { kind: 'broadcast' }, 'operations: rank 0 has ALLREDUCE, but rank 5 has BROADCAST'],
    ['dtype', {}, { dtypes: ['int32'] }, 'data types: rank 0 has float32, but rank 5 has int32'],
    [
      'shape',
      {},
      { shapes: [[3, 2]] },
      'ALLREDUCE tensor shapes: rank 0 has shape [2, 3], but rank 5 has shape [3, 2]',
    ],
    [
      'number of dimensions',
      { kind: 'allgather' },
      { kind: 'allgather', shapes: [[2]] },
      'ALLGATHER tensor shapes: rank 0 has shape [2, 3], but rank 5 has shape [2]',
    ],
    [
      'prescale',
      {},
      { prescale: 0.5 },
      'prescale and/or postscale factors: rank 0 has (1, 1), but rank 5 has (0.5, 1)',
    ],
    [
      'postscale',
      {},
      { postscale: 2 },
      'prescale and/or postscale factors: rank 0 has (1, 1), but rank 5 has (1, 2)',
    ],
    ['operator', {}, { op: 'Min' }, 'reduction operations: rank 0 has Sum, but rank 5 has Min'],
    [
      'root',
      { kind: 'broadcast', root: 1 },
      { kind: 'broadcast', root: 2 },
      'root ranks: rank 0 has root 1, but rank 5 has root 2',
    ],
    [
      'group',
      {},
      { isGrouped: true },
      'group sizes: rank 0 has a single tensor, but rank 5 has a group of 1',
    ],
    [
      'a tensor of a group',
      { isGrouped: true, dtypes: ['int8', 'int8'], shapes: [[1], [2]] },
      { isGrouped: true, dtypes: ['int8', 'bool'], shapes: [[1], [2]] },
      'data types of tensor 1 of the group: rank 0 has int8, but rank 5 has bool',
    ],
    ['compression', {}, { detail: 'fp16' }, 'options: rank 0 has none, but rank 5 has fp16'],
    [
      'process set',
      { kind: 'processSet', detail: 'add 0' },
      { kind: 'processSet', detail: 'add 1' },
      'process sets: rank 0 has add 0, but rank 5 has add 1',
    ],
    [
      'several things: the type comes first',
      {},
      { dtypes: ['int8'], shapes: [[9]], op: 'Max' },
      'data types: rank 0 has float32, but rank 5 has int8',
    ],
  ];
  for (const [what, a, b, words] of table) {
    test(`names ranks and both values: ${what}`, () => {
      const kind = a.kind ?? 'allreduce';
      assert.equal(mismatch(a, b), `${kind} "x": mismatched ${words}.`);
    });
  }

  for (const kind of ['allgather', 'alltoall'] as const) {
    test(`the first dimension of ${kind} is free`, () => {
      assert.equal(mismatch({ kind }, { kind, shapes: [[9, 3]] }), undefined);
    });
  }
});
