import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { allHolders, mirrorHolders, shardsOf, type Version, Versions } from './versions.ts';

const version = (commit: number, generation = 1): Version => ({
  commit,
  generation,
  members: 2,
  shards: [0],
});
const save = (versions: Versions, each: Version): number => {
  const slot = versions.nextSlot();
  versions.saved(slot, each);
  return slot;
};
const commits = (versions: Versions) =>
  versions.list().map(({ commit, shards }) => [commit, shards.length] as const);

describe('which commits are kept', () => {
  test('without mirrors only the last one, always in the same slot', () => {
    const versions = new Versions();
    for (let commit = 1; commit < 5; commit++) assert.equal(save(versions, version(commit)), 0);
    assert.deepEqual(commits(versions), [[4, 1]]);
  });

  test('the last two with mirrors, and the last; the older of the two only until it is proven', () => {
    const versions = new Versions();
    save(versions, version(1));
    versions.mirrored([0, 1]);
    save(versions, version(2));
    assert.equal(versions.proven(), undefined, 'there is no older one');
    save(versions, version(3));
    versions.mirrored([0, 1]);
    assert.deepEqual(commits(versions), [
      [3, 2],
      [1, 2],
    ]);
    const last = save(versions, version(4));
    assert.equal(new Set([...versions.slots()]).size, 3);
    assert.deepEqual(commits(versions), [
      [4, 1],
      [3, 2],
      [1, 2],
    ]);
    assert.notEqual(versions.proven(), last);
    assert.deepEqual(commits(versions), [
      [4, 1],
      [3, 2],
    ]);
    save(versions, version(5));
    versions.mirrored([0, 1]);
    save(versions, version(6));
    versions.mirrored([0, 1]);
    assert.deepEqual(commits(versions), [
      [6, 2],
      [5, 2],
    ]);
  });

  test('going back forgets what came later, and what was gone back to stays until the next is mirrored', () => {
    const versions = new Versions();
    const mirrored = save(versions, version(1));
    versions.mirrored([0, 1]);
    save(versions, version(2));
    assert.equal(versions.goBackTo({ commit: 1, generation: 1 }).slot, mirrored);
    assert.deepEqual(commits(versions), [[1, 2]]);
    save(versions, version(1, 2));
    assert.deepEqual(
      versions.list().map(({ generation }) => generation),
      [2, 1],
    );
    // The synchronization has failed on another rank: the commit of the generation before is still there.
    assert.equal(versions.goBackTo({ commit: 1, generation: 1 }).slot, mirrored);
    assert.throws(() => versions.goBackTo({ commit: 7, generation: 1 }), /is not kept/);
  });
});

test('a version says how many training steps had been done', () => {
  const versions = new Versions();
  versions.saved(versions.nextSlot(), version(1), 10);
  versions.mirrored([0, 1]);
  versions.saved(versions.nextSlot(), version(2), 12);
  assert.equal(versions.goBackTo({ commit: 1, generation: 1 }).step, 10);
});

describe('who has copies', () => {
  test('the next rank of another host, or the next rank where there is one host', () => {
    assert.deepEqual(mirrorHolders([0, 0, 0]), [[1], [2], [0]]);
    assert.deepEqual(mirrorHolders([0, 0, 1, 1]), [[2], [2], [0], [0]]);
    assert.deepEqual(mirrorHolders([0, 1, 0]), [[1], [2], [1]]);
    assert.deepEqual(mirrorHolders([0]), [[]]);
  });

  test('its own shard comes first', () => {
    assert.deepEqual(shardsOf(2, mirrorHolders([0, 0, 1, 1])), [2, 0, 1]);
    assert.deepEqual(shardsOf(1, allHolders(3)), [1, 0, 2]);
  });
});
