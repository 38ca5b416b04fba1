import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import * as hvd from '../index.ts';
import { dealt, resume, type StreamState } from './resume.ts';
import type { World } from './world.ts';

function* numbers(length: number): Generator<number> {
  for (let each = 0; each < length; each++) yield each;
}

/** What a rank gets of 0 … length − 1, and what it discards. */
function streamOf(length: number, state: StreamState, world: () => World) {
  const discarded: number[] = [];
  const iterator = numbers(length);
  const elements = { next: async () => iterator.next() };
  return { discarded, stream: dealt(elements, state, { world, discard: (each) => discarded.push(each) }) };
}

async function takeAll(stream: AsyncIterable<number>): Promise<number[]> {
  const taken: number[] = [];
  for await (const each of stream) taken.push(each);
  return taken;
}

describe('a stream that is dealt', () => {
  before(() => hvd.init());
  after(() => hvd.shutdown());

  test('gives each rank its share of every whole window, and begins anew after its end', async () => {
    const shares: number[][] = [];
    for (const rank of [0, 1, 2]) {
      const state = { position: 0 };
      const membership = {};
      const { stream, discarded } = streamOf(11, state, () => ({ rank, size: 3, membership }));
      const share = await takeAll(stream);
      shares.push(share);
      assert.equal(state.position, 0);
      assert.deepEqual(
        [...share, ...discarded].sort((a, b) => a - b),
        [...numbers(11)],
      );
    }
    assert.deepEqual(shares, [
      [0, 3, 6],
      [1, 4, 7],
      [2, 5, 8],
    ]);
  });

  test('goes on at the position of the last commit with other ranks; the one from before is stale', async () => {
    let world: World = { rank: 1, size: 2, membership: {} };
    const state = new hvd.elastic.ObjectState({ position: 0 });
    const { stream } = streamOf(9, state, () => world);
    assert.equal((await stream.next()).value, 1);
    await state.commit();
    assert.equal((await stream.next()).value, 3);
    // Rank 0 was lost in that step.
    state.restore();
    assert.equal(state.position, 2);
    world = { rank: 0, size: 1, membership: {} };
    await assert.rejects(stream.next(), { code: 'ERR_HVD_STALE' });
    assert.deepEqual(await takeAll(streamOf(9, state, () => world).stream), [2, 3, 4, 5, 6, 7, 8]);
  });

  test('is made anew for each pass, from iterables of both kinds, and is closed by whoever leaves it', async () => {
    const state = new hvd.elastic.ObjectState({ epoch: 0, position: 4 });
    let closed = 0;
    async function* later() {
      try {
        yield* numbers(6);
      } finally {
        closed++;
      }
    }
    const twice = resume(later, state);
    assert.deepEqual([await takeAll(twice), closed], [[4, 5], 1]);
    for await (const each of twice) {
      assert.equal(each, 0);
      break;
    }
    assert.deepEqual([closed, state.position], [2, 1]);
    assert.deepEqual(await takeAll(resume(() => [7, 8, 9], state)), [8, 9]);
  });

  test('needs a function, and a state with a position', async () => {
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    const state = { position: 0 };
    assert.throws(() => resume([1] as never, state), { code, message: /expected a function that returns/ });
    assert.throws(() => resume(() => [1], { epoch: 0 } as never), { code, message: /the field position/ });
    await assert.rejects(takeAll(resume(() => 5 as never, state)), { code, message: /not 5/ });
  });
});
