// Every generation starts from the highest commit there is.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { elect } from './elect.ts';

const cases: [title: string, commits: number[], root: number, commit: number, lacking: number[]][] = [
  ['nobody has a commit: rank 0 counts, and all others receive its state', [-1, -1, -1], 0, -1, [1, 2]],
  ['all have the same: nobody lacks anything', [4, 4, 4], 0, 4, []],
  ['the highest commit wins, wherever it is', [4, 5, 4], 1, 5, [0, 2]],
  ['of several the lowest rank', [4, 5, 5], 1, 5, [0]],
  ['a newcomer lacks everything, also with a low number', [-1, 7], 1, 7, [0]],
  ['a first commit counts more than none', [-1, 0], 1, 0, [0]],
  ['one rank alone', [-1], 0, -1, []],
];
for (const [title, commits, root, commit, lacking] of cases) {
  test(title, () => assert.deepEqual(elect(commits), { root, commit, lacking }));
}
