// How ranks that open something together learn of each other's success or failure.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { HorovodError } from '../../errors.ts';
import { openTogether } from './open-together.ts';

const never = new Promise<never>(() => {});

/** Runs it for ranks with these openings; what each got, and how often they told each other their states. */
async function run<T>(
  openings: readonly Promise<T>[],
  onRound: (round: number, texts: readonly string[]) => void = () => {},
): Promise<{ got: unknown[]; rounds: number }> {
  const rounds: { texts: string[]; done(texts: string[]): void; all: Promise<string[]> }[] = [];
  const roundAt = (number: number) => {
    let done: (texts: string[]) => void = () => {};
    const all = new Promise<string[]>((resolve) => {
      done = resolve;
    });
    rounds[number] ??= { texts: [], done, all };
    return rounds[number];
  };
  const results = await Promise.allSettled(
    openings.map((opening, rank) => {
      let number = 0;
      const tell = (text: string) => {
        const round = number++;
        const { texts, done, all } = roundAt(round);
        texts[rank] = text;
        if (Object.keys(texts).length === openings.length) {
          onRound(round, texts);
          done(texts);
        }
        return all;
      };
      return openTogether({ opening, tell, periodMs: 5 });
    }),
  );
  const got = results.map((result) => (result.status === 'fulfilled' ? result.value : result.reason));
  return { got, rounds: rounds.length };
}

describe('openTogether()', () => {
  test('gives each rank its part when all have opened theirs', async () => {
    const { got } = await run([Promise.resolve('a'), Promise.resolve('b')]);
    assert.deepEqual(got, ['a', 'b']);
  });

  test('waits for a slow rank', async () => {
    let open: (part: string) => void = () => {};
    const slow = new Promise<string>((resolve) => {
      open = resolve;
    });
    setTimeout(() => open('late'), 30);
    const { got, rounds } = await run([Promise.resolve('a'), slow]);
    assert.deepEqual(got, ['a', 'late']);
    assert.ok(rounds > 1, `${rounds} rounds`);
  });

  test('the failure of one rank ends the wait of all, however long their openings take', async () => {
    const full = new HorovodError('ERR_HVD_SHARED_MEMORY', '/dev/shm is full');
    const { got } = await run([never, Promise.reject(full), Promise.resolve('open')]);
    assert.equal(got[1], full);
    for (const error of [got[0], got[2]] as HorovodError[]) {
      assert.equal(error.code, 'ERR_HVD_SHARED_MEMORY');
      assert.equal(error.detail, 'rank 1: /dev/shm is full');
      assert.equal(error.rank, 1);
    }
  });

  test('all ranks get the cause, not what followed from it on other ranks', async () => {
    const lost = new HorovodError('ERR_HVD_PEER_LOST', 'the connection to rank 1 was closed');
    const { got } = await run([Promise.reject(lost), Promise.reject(new Error('EMFILE'))]);
    const [first, second] = got as [HorovodError, Error];
    assert.equal(first.code, 'ERR_HVD_NATIVE');
    assert.match(first.detail, /rank 1: Error: EMFILE/);
    assert.equal(second.message, 'EMFILE');
  });

  test('an error that some have heard of already keeps the rank where it happened', async () => {
    const heard = new HorovodError('ERR_HVD_NATIVE', 'rank 1: no more sockets', { rank: 1 });
    const { got } = await run([Promise.reject(heard), Promise.reject(new Error('no more sockets')), never]);
    assert.deepEqual(
      [got[0], got[2]].map((error) => (error as HorovodError).rank),
      [1, 1],
    );
  });

  test('also if the cause came too late for the round in which others failed because of it', async () => {
    const aborted = new HorovodError('ERR_HVD_ABORTED', 'no time for this');
    const gone = new HorovodError('ERR_HVD_SHARED_MEMORY', 'cannot open a memory file of rank 0');
    let abort: () => void = () => {};
    const opening = new Promise<never>((_, reject) => {
      abort = () => reject(aborted);
    });
    // Rank 0 says that it still opens its part, then gives up; rank 1 fails before it has said anything.
    const { got } = await run([opening, Promise.reject(gone)], (round, texts) => {
      if (round === 0) assert.match(texts[0] ?? '', /opening/);
      if (round === 0) abort();
    });
    const [first, second] = got as HorovodError[];
    assert.equal(first, aborted);
    assert.equal(second?.code, 'ERR_HVD_ABORTED');
    assert.equal(second?.rank, 0);
  });
});
