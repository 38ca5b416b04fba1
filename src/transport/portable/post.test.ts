import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Post, payloadOffsetOf } from './post.ts';

const content = { round: 7, fingerprintLow: 1, fingerprintHigh: 0xffffffff, totalBytes: 2 ** 40 };

test('a post says what was written into it', () => {
  const post = new Post(new Uint8Array(4096), 64, 3, 1024);
  post.write({ ...content, payloadBytes: 5, sendBytes: [1, 2 ** 33, 3] });
  assert.ok(post.isOf(7));
  assert.ok(!post.isOf(8));
  assert.equal(post.payloadBytes, 5);
  assert.equal(post.totalBytes, 2 ** 40);
  assert.deepEqual(
    [0, 1, 2].map((to) => post.sendBytes(to)),
    [1, 2 ** 33, 3],
  );
});

test('a post of which any byte is old or missing is not taken for one', () => {
  const fresh = new Uint8Array(4096);
  const payloadOffset = payloadOffsetOf(2);
  fresh.fill(0xab, payloadOffset, payloadOffset + 100);
  const post = new Post(fresh, 0, 2, 1024);
  post.write({ ...content, payloadBytes: 100 });
  const seen = new Uint8Array(4096);
  const copy = new Post(seen, 0, 2, 1024);
  for (let torn = 0; torn < payloadOffset + 100; torn++) {
    seen.set(fresh);
    seen[torn] = (seen[torn] as number) ^ 0x5a;
    assert.ok(!copy.isOf(7), `byte ${torn} was changed`);
    // The beginning is there, the rest is not yet.
    seen.fill(0, torn);
    assert.ok(!copy.isOf(7), `from byte ${torn} on nothing was there`);
  }
  seen.set(fresh);
  assert.ok(copy.isOf(7) && copy.agreesWith(post));
});

test('a header that claims any length is rejected without reading past its area', () => {
  const staging = new Uint8Array(256);
  const post = new Post(staging, 0, 2, 64);
  const words = new Int32Array(staging.buffer);
  for (const claimed of [-1, 65, 1024, 2 ** 31 - 1]) {
    words[1] = 7;
    words[4] = claimed;
    assert.ok(!post.isOf(7));
  }
});
