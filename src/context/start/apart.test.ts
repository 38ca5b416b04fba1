// What ranks of one machine are told if they cannot share memory.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeApart } from './apart.ts';

const at = (boot: string, pid = 'p', users = 'u', user: number | string = 0) => ({
  apart: { boot, pid, users, user },
});
const say = (members: ReturnType<typeof at>[]) =>
  describeApart(
    members,
    members.map((_, place) => place + 10),
  );

test('ranks that share memory, or are on different machines, are told nothing', () => {
  assert.equal(say([at('a'), at('a')]), undefined);
  assert.equal(say([at('a', 'p1'), at('b', 'p2', 'u2', 5)]), undefined);
  assert.equal(say([at('', 'p1'), at('', 'p2')]), undefined);
});

test('ranks in containers of their own are named, with the reason', () => {
  assert.match(
    say([at('a'), at('b', 'p1'), at('b', 'p2')]) ?? '',
    /^ranks 11, 12 are on one machine.*process numbers of their own\. These use TCP/,
  );
  assert.match(say([at('a', 'p', 'u1'), at('a', 'p', 'u2')]) ?? '', /containers with users of their own/);
});

test('ranks of different users are told to be one', () => {
  assert.match(say([at('a', 'p', 'u', 1), at('a', 'p', 'u', 2)]) ?? '', /different users run them/);
});
