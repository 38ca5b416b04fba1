// Ranks on hosts: tables of where ranks are and what they are called there.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HostMap, whereabouts } from './hosts.ts';

/** 'aabb': the first two ranks on host a, the others on b. */
function mapOf(layout: string): HostMap {
  return new HostMap([...layout].map((letter) => ({ hostname: letter, machine: `machine ${letter}` })));
}

const brief = (layout: string): string[] => {
  const map = mapOf(layout);
  return [...layout].map((_, place) => {
    const { rank, size, localRank, localSize, crossRank, crossSize } = map.worldOf(place);
    return `${map.nameOf(place)} ${rank}/${size} ${localRank}/${localSize} ${crossRank}/${crossSize}`;
  });
};

test('ranks that lie host by host', () => {
  assert.deepEqual(brief('aabb'), ['a 0/4 0/2 0/2', 'a 1/4 1/2 0/2', 'b 2/4 0/2 1/2', 'b 3/4 1/2 1/2']);
});

test('ranks that are dealt out to the hosts in turn', () => {
  assert.deepEqual(brief('abab'), ['a 0/4 0/2 0/2', 'b 1/4 0/2 1/2', 'a 2/4 1/2 0/2', 'b 3/4 1/2 1/2']);
  assert.deepEqual(mapOf('abab').placesOn(1), [1, 3]);
});

test('hosts of different sizes have different cross sizes and are not homogeneous', () => {
  assert.deepEqual(brief('abbb'), ['a 0/4 0/1 0/2', 'b 1/4 0/3 1/2', 'b 2/4 1/3 0/1', 'b 3/4 2/3 0/1']);
  assert.equal(mapOf('abbb').worldOf(0).isHomogeneous, false);
  assert.equal(mapOf('abba').worldOf(0).isHomogeneous, true);
});

test('two processes of this machine are on one host, whatever it is called, unless they call it differently', () => {
  const map = new HostMap([whereabouts('a'), whereabouts('a'), whereabouts('b')]);
  assert.deepEqual(map.hostOf, [0, 0, 1]);
  assert.deepEqual(map.names, ['a', 'b']);
});

const asRoot = process.geteuid?.() === 0 ? false : 'only root can be another user';

test('a user with a number and no name, as in a container, is somewhere too', { skip: asRoot }, () => {
  process.seteuid?.(54_321);
  try {
    assert.match(whereabouts('a').machine, / 54321 /);
  } finally {
    process.seteuid?.(0);
  }
});
