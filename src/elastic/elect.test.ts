// Every generation starts from the highest commit there is.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { elect, electShards } from './elect.ts';

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

describe('where each rank has a shard', () => {
  const version = (commit: number, shards: readonly number[], generation = 1, members = 3) => ({
    commit,
    generation,
    members,
    shards,
  });
  const newcomer = { commit: -1, versions: [] };

  test('ranks that are all there go on from their last commit', () => {
    const offers = [0, 1, 2].map((rank) => ({ commit: 7, versions: [version(7, [rank])] }));
    assert.deepEqual(electShards(offers), {
      root: 0,
      commit: 7,
      lacking: [],
      shards: { version: { commit: 7, generation: 1, members: 3 }, holders: [[0], [1], [2]] },
    });
  });

  test('after a loss the last commit with copies counts that every survivor has', () => {
    // Rank 1 is lost. Rank 0 has mirrored commit 8; the other survivor, rank 2 before, has not.
    const offers = [
      { commit: 8, versions: [version(8, [0, 2]), version(4, [0, 2])] },
      newcomer,
      { commit: 8, versions: [version(8, [2]), version(4, [2, 1])] },
    ];
    assert.deepEqual(electShards(offers), {
      root: 0,
      commit: 4,
      lacking: [1],
      shards: { version: { commit: 4, generation: 1, members: 3 }, holders: [[0], [2], [2, 0]] },
    });
  });

  test('commits with the same number of two generations are different: shards are cut differently', () => {
    // The synchronization of generation 2 has succeeded on one rank only.
    const offers = [
      { commit: 4, versions: [version(4, [0, 1], 2, 2), version(4, [0, 2], 1)] },
      { commit: 4, versions: [version(4, [2, 1], 1)] },
    ];
    const elected = electShards(offers);
    assert.ok(!('lost' in elected));
    assert.deepEqual(elected.shards?.version, { commit: 4, generation: 1, members: 3 });
  });

  test('the first ranks have no shards yet', () => {
    assert.deepEqual(electShards([newcomer, newcomer]), { root: 0, commit: -1, lacking: [1] });
  });

  test('a shard that is lost with its copy is named, and so is having nothing in common', () => {
    const alone = { commit: 9, versions: [version(9, [0]), version(8, [0, 2])] };
    assert.deepEqual(electShards([alone, newcomer]), {
      lost: [1],
      version: { commit: 8, generation: 1, members: 3 },
    });
    assert.deepEqual(electShards([alone, { commit: 1, versions: [version(1, [2])] }]), { lost: [] });
  });
});
