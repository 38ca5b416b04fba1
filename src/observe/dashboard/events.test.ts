// What happens to a job, told once.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { statusOf, viewOf } from '../../../test/support/status-examples.ts';
import type { JobView, RankView } from '../status/job-view.ts';
import type { RankStatus } from '../status/rank-status.ts';
import { EventFinder } from './events.ts';

const now = 1_000_000;

function jobOf(ranks: readonly RankView[], given: Partial<JobView> = {}): JobView {
  return { id: '1a2b3c4d', command: 'node train.js', ranks, hosts: [], ...given };
}

const rankOf = (rank: number, status: Partial<RankStatus> = {}, view: Partial<RankView> = {}) =>
  viewOf({ rank, status: statusOf({ rank, ...status }), ...view });
const waiting = (waitedMs: number, missing: number) => ({
  pending: [{ label: 'allreduce "w"', waitedMs, missing: [missing] }],
});

/** What is told of these looks, one after the other. */
function told(...views: readonly JobView[]) {
  const finder = new EventFinder();
  return views.map((view, look) =>
    finder.look(view, now + look).map(({ kind, tone, text }) => [kind, tone, text]),
  );
}

describe('events', () => {
  test('a quiet job has none', () => {
    const view = jobOf([rankOf(0), rankOf(1)]);
    assert.deepEqual(told(view, view), [[], []]);
  });

  test('a lost rank', () => {
    const view = jobOf([rankOf(0), rankOf(1, {}, { presence: 'lost', end: 'was killed by SIGKILL' })]);
    assert.deepEqual(told(view, view), [
      [['lost', 'bad', 'rank 1 (host1, pid 4121) was killed by SIGKILL, in step 121']],
      [],
    ]);
  });

  test('a lost rank waits a look for the reason, which its launcher may be about to say', () => {
    const unclear = jobOf([rankOf(0, {}, { presence: 'lost', end: 'has ended; how is not known' })]);
    const clear = jobOf([rankOf(0, {}, { presence: 'lost', end: 'exited with code 3' })]);
    assert.deepEqual(told(unclear, clear), [
      [],
      [['lost', 'bad', 'rank 0 (host1, pid 4121) exited with code 3, in step 121']],
    ]);
    assert.equal(told(unclear, unclear)[1]?.length, 1);
  });

  test('a stall, and its end', () => {
    const before = jobOf([rankOf(0, waiting(9000, 1)), rankOf(1)]);
    const stalled = jobOf([rankOf(0, waiting(12_000, 1)), rankOf(1)]);
    const [first, second, third, fourth] = told(before, stalled, stalled, jobOf([rankOf(0), rankOf(1)]));
    assert.deepEqual([first, third], [[], []]);
    assert.deepEqual(second, [['stall', 'bad', 'rank 1 has kept the others waiting for 12 s']]);
    assert.deepEqual(fourth, [['stall', 'good', 'the others no longer wait for rank 1']]);
    const report = new EventFinder().look(stalled, now)[0]?.report;
    assert.equal(report, 'rank 0 has waited 12 s for rank 1: allreduce "w"');
  });

  test('a straggler, again only after a while', () => {
    const view = jobOf([0, 1, 2].map((rank) => rankOf(rank, { waitMsPerStep: rank === 2 ? 2 : 12 })));
    const finder = new EventFinder();
    assert.match(
      finder.look(view, now)[0]?.text ?? '',
      /^rank 2 \(host1\) arrives last: the others wait 10 ms for it in each step, 25 %$/,
    );
    assert.deepEqual(finder.look(view, now + 1000), []);
    const later = {
      ...view,
      ranks: view.ranks.map((rank) => ({
        ...rank,
        status: { ...(rank.status as RankStatus), updatedAt: now + 700_000 },
      })),
    };
    assert.equal(finder.look(later, now + 700_000)[0]?.kind, 'straggler');
  });

  test('a checkpoint, each once', () => {
    const saved = (path: string, at: number) => jobOf([rankOf(0, { checkpoint: { path, at } })]);
    assert.deepEqual(told(saved('m-1', 5), saved('m-1', 5), saved('m-2', 9), saved('m-2', 12)), [
      [['checkpoint', 'good', 'rank 0 has saved m-1']],
      [],
      [['checkpoint', 'good', 'rank 0 has saved m-2']],
      [['checkpoint', 'good', 'rank 0 has saved m-2']],
    ]);
  });

  test('the memory of a host, when it begins to run low', () => {
    const host = { host: 'a', takenAt: now, gpus: [] };
    const fine = jobOf([rankOf(0)], { hosts: [host] });
    const low = jobOf([rankOf(0)], { hosts: [{ ...host, warning: 'only 300 MiB are left' }] });
    assert.deepEqual(
      told(fine, low, low, fine, low).map((events) => events.length),
      [0, 1, 0, 0, 1],
    );
    assert.deepEqual(told(low)[0], [['memory', 'bad', 'a: only 300 MiB are left']]);
  });

  test('training that waits for data, and that it no longer does', () => {
    const starving = jobOf([rankOf(0, { data: { share: 0.3, starvedMs: 20_000, advice: 'raise threads' } })]);
    const [first, second, third] = told(starving, starving, jobOf([rankOf(0, { data: { share: 0.01 } })]));
    assert.match(
      String(first?.[0]?.[2]),
      /^rank 0 has been waiting for data for 20 s, 30 % of the time: raise threads/,
    );
    assert.deepEqual(second, []);
    assert.deepEqual(third, [['data', 'good', 'training no longer waits for data']]);
  });

  test('resets of an elastic job; a lost rank of the next generation is another one', () => {
    const note = {
      generation: 2,
      at: 77,
      what: 'rank 1 on a was killed by SIGKILL',
      size: 3,
      tookMs: 140,
      repeatedSteps: 1,
    };
    const news = { generation: 2, resets: 1, standbys: 0, lastResets: [note], pid: 1 };
    const gone = rankOf(1, {}, { presence: 'lost', end: 'was killed by SIGKILL' });
    const [first, second, third] = told(
      jobOf([rankOf(0), gone], { generation: 1 }),
      jobOf([rankOf(0), rankOf(1)], { generation: 2, news }),
      jobOf([rankOf(0), gone], { generation: 2, news }),
    );
    assert.deepEqual(
      first?.map(([kind]) => kind),
      ['lost'],
    );
    assert.deepEqual(second, [
      [
        'reset',
        'slow',
        'rank 1 on a was killed by SIGKILL; generation 2 has 3 ranks, after 140 ms, 1 step repeated',
      ],
    ]);
    assert.deepEqual(
      third?.map(([kind]) => kind),
      ['lost'],
    );
  });
});
