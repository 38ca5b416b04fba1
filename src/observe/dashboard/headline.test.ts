// What the page says is going on: the worst first.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { statusOf, viewOf } from '../../../test/support/status-examples.ts';
import type { JobView, RankView } from '../status/job-view.ts';
import type { RankStatus } from '../status/rank-status.ts';
import { headlineOf, stragglerOf } from './headline.ts';
import { rankSamples } from './rank-sample.ts';

const now = 1_000_000;

function jobOf(ranks: readonly RankView[], given: Partial<JobView> = {}): JobView {
  return { id: '1a2b3c4d', command: 'node train.js', ranks, hosts: [], ...given };
}

type Given = Partial<RankStatus> & { view?: Partial<RankView> };

/** Ranks that train, each with what is different about it. */
function training(...given: readonly Given[]): RankView[] {
  return given.map(({ view = {}, ...status }, rank) =>
    viewOf({ rank, status: statusOf({ rank, ...status }), ...view }),
  );
}

const waiting = (waitedMs: number, ...missing: number[]) => ({
  pending: [{ label: 'allreduce "dense/kernel"', waitedMs, missing }],
});
const lost = { view: { presence: 'lost', end: 'was killed by SIGKILL' } as const };
const starving = { share: 0.34, starvedMs: 25_000, advice: 'decode takes the time: raise its threads' };
const low = { host: 'host1', takenAt: now, gpus: [], warning: 'only 300 MiB are left' };

describe('the headline', () => {
  const cases: [string, JobView, string, RegExp][] = [
    ['training', jobOf(training({}, {})), 'good', /^2 ranks train; nothing holds them up$/],
    ['one rank', jobOf(training({})), 'good', /^1 rank trains; /],
    ['no step yet', jobOf(training({ step: 0, rates: noRates() }, {})), 'good', /train/],
    [
      'no rank with a step',
      jobOf(training({ step: 0, rates: noRates() }, { step: 0, rates: noRates() })),
      'idle',
      /^2 ranks at work; no training step has ended yet$/,
    ],
    [
      'between steps',
      jobOf(training({ rates: noRates() })),
      'idle',
      /no training step has ended in the last/,
    ],
    ['nobody yet', jobOf([starting(0), starting(1)]), 'idle', /^the ranks are starting$/],
    ['one is missing', jobOf([...training({}), starting(1)]), 'idle', /^rank 1 is starting$/],
    ['a lost rank', jobOf(training({}, lost)), 'bad', /^rank 1 on host1 was killed by SIGKILL$/],
    [
      'lost ranks',
      jobOf(training(lost, lost, {})),
      'bad',
      /^rank 0 on host1 was killed by SIGKILL, and 1 other rank as well$/,
    ],
    [
      'a lost rank that has taken the others along',
      jobOf(
        training({ view: { presence: 'lost', end: 'exited with code 1' } }, lost, {
          view: { presence: 'lost', end: 'exited with code 1' },
        }),
      ),
      'bad',
      /^rank 1 on host1 was killed by SIGKILL, and 2 other ranks as well$/,
    ],
    [
      'a lost rank that the others blame',
      jobOf(training({ view: { presence: 'lost', end: 'exited with code 1' } }, lost), {
        failure: 'rank 0 (pid 4) threw an error',
      }),
      'bad',
      /^rank 0 on host1 exited with code 1, and 1 other rank/,
    ],
    [
      'a lost rank of an elastic job',
      jobOf(training({}, lost), { generation: 2 }),
      'bad',
      /; the others go on without it$/,
    ],
    ['a short wait', jobOf(training(waiting(500, 1), {})), 'good', /nothing holds them up/],
    [
      'a stall',
      jobOf(training(waiting(12_000, 1), {})),
      'slow',
      /^rank 1 has kept the others waiting for 12 s in allreduce "dense\/kernel"$/,
    ],
    ['a long stall', jobOf(training(waiting(70_000, 1), {})), 'bad', /^rank 1 has kept .* 70 s/],
    [
      'a stall with many missing ranks',
      jobOf(training(waiting(9000, ...Array.from({ length: 12 }, (_, i) => i + 1)), {})),
      'slow',
      /^ranks 1, 2, 3 and 9 more have kept the others waiting/,
    ],
    [
      'a stopped process',
      jobOf(training({}, { view: { activity: 'stopped' } })),
      'bad',
      /^rank 1 is stopped \(SIGSTOP/,
    ],
    ['memory', jobOf(training({}), { hosts: [low] }), 'bad', /^the memory of host1 runs low$/],
    ['data', jobOf(training({ data: starving }, {})), 'slow', /^rank 0 has been waiting for data for 25 s/],
    [
      'a straggler',
      jobOf(training({ waitMsPerStep: 20 }, { waitMsPerStep: 21 }, { waitMsPerStep: 5 })),
      'slow',
      /^rank 2 keeps the others waiting, 38 % of a step$/,
    ],
    [
      'communication',
      jobOf(training({ exposedMsPerStep: 16 }, { exposedMsPerStep: 18 })),
      'slow',
      /^communication that nothing hides takes 41 % of a step$/,
    ],
    [
      'a reset',
      jobOf(training({}), { generation: 3, news: { ...news(), pause: 'in a reset' } }),
      'slow',
      /^no rank trains: in a reset$/,
    ],
    [
      'the end',
      jobOf(training({ view: { presence: 'left' } }, { view: { presence: 'left' } })),
      'idle',
      /^all ranks have shut down$/,
    ],
    [
      'a lost rank that others wait for',
      jobOf(training({ ...waiting(12_000, 1) }, lost)),
      'bad',
      /was killed by SIGKILL/,
    ],
  ];
  for (const [what, view, tone, text] of cases) {
    test(what, () => {
      const said = headlineOf(view, { now });
      assert.match(said.text, text);
      assert.equal(said.tone, tone);
    });
  }

  test('has the step of all, the epoch, and the time left at the pace of the last minutes', () => {
    const view = jobOf(training({ stepOf: 1120, epoch: 2, epochs: 9 }, {}));
    const { step, steps, epoch, epochs, secondsLeft } = headlineOf(view, { now, stepsPerSecond: 20 });
    assert.deepEqual([step, steps, epoch, epochs, secondsLeft], [120, 1120, 2, 9, 50]);
    assert.equal(headlineOf(view, { now }).secondsLeft, Math.round(1000 / 25.4));
    assert.equal(headlineOf(jobOf(training({})), { now, stepsPerSecond: 20 }).secondsLeft, undefined);
  });

  test('adds up the samples of ranks that have said something lately', () => {
    const view = jobOf(training({}, {}, { updatedAt: now - 60_000 }, lost));
    assert.equal(headlineOf(view, { now }).samplesPerSecond, 1624.7);
  });
});

describe('a rank in the table', () => {
  const tones = (...ranks: readonly Given[]) => {
    const view = jobOf(training(...ranks));
    return rankSamples(view, now, stragglerOf(view, now)?.rank).map(({ tone }) => tone);
  };

  test('is red when it is lost or stopped, or others wait for it for long', () => {
    assert.deepEqual(tones({}, lost), ['good', 'bad']);
    assert.deepEqual(tones({}, { view: { activity: 'stopped' } }), ['good', 'bad']);
    assert.deepEqual(tones(waiting(31_000, 1), {}), ['idle', 'bad']);
  });

  test('is the cause if it has taken other ranks along', () => {
    const failed = { view: { presence: 'lost', end: 'exited with code 1' } as const };
    const causes = (given: Partial<JobView>, ...ranks: readonly Given[]) =>
      rankSamples(jobOf(training(...ranks), given), now).map(({ isCause = false }) => isCause);
    assert.deepEqual(causes({}, failed, lost, failed), [false, true, false]);
    assert.deepEqual(causes({ failure: 'rank 2 exited with code 1' }, failed, failed, failed), [
      false,
      false,
      true,
    ]);
    assert.deepEqual(causes({}, {}, lost), [false, false], 'alone, it needs no mark');
  });

  test('is yellow when others wait for it, and grey when it waits itself', () => {
    assert.deepEqual(tones(waiting(3000, 1), {}), ['idle', 'slow']);
    assert.deepEqual(tones({ waitMsPerStep: 20 }, { waitMsPerStep: 2 }), ['good', 'slow']);
  });

  test('says what it does in the words of horovod status', () => {
    const view = jobOf([...training(waiting(3000, 1), {}, { step: 0 }, lost), starting(4)]);
    assert.deepEqual(
      rankSamples(view, now).map(({ text }) => text),
      [
        'waiting 3.0 s for rank 1: allreduce "dense/kernel"',
        'trains',
        'runs',
        'was killed by SIGKILL',
        'not connected yet',
      ],
    );
  });

  test('has its lateness, newest collective, bytes and waiting for data, as horovod status shows them', () => {
    const last = {
      sequence: 7,
      kind: 'allreduce',
      name: 'gradients',
      state: 'done',
      bytes: 8,
      atMs: now,
    } as const;
    const rates = { ...noRates(), bytesPerSecond: 2_000_000 };
    const view = jobOf(
      training({ waitMsPerStep: 22 }, { waitMsPerStep: 2, last, rates, data: { share: 0.34 } }, lost),
    );
    const [first, late, gone] = rankSamples(view, now);
    assert.deepEqual([first?.late, first?.dataShare], [undefined, undefined]);
    const { late: by, last: newest, bytesPerSecond, dataShare } = late ?? {};
    assert.deepEqual(
      { by, newest, bytesPerSecond, dataShare },
      { by: '20 ms/step', newest: 'allreduce gradients', bytesPerSecond: 2_000_000, dataShare: 0.34 },
    );
    assert.deepEqual([gone?.late, gone?.bytesPerSecond, gone?.dataShare], [undefined, 0, undefined]);
  });

  test('has numbers of its step, and metrics with NaN and infinity as texts', () => {
    const metrics = [
      ['loss', Number.NaN],
      ['best', Number.NEGATIVE_INFINITY],
      ['accuracy', 0.5],
    ] as const;
    const [rank] = rankSamples(jobOf(training({ metrics, waitMsPerStep: 3, exposedMsPerStep: 2 })), now);
    assert.deepEqual(rank?.metrics, { loss: 'NaN', best: '-Infinity', accuracy: 0.5 });
    assert.deepEqual([rank?.stepMs, rank?.waitMs, rank?.exposedMs], [39.37, 3, 2]);
    assert.deepEqual(JSON.parse(JSON.stringify(rank)), rank);
  });
});

function noRates(): RankStatus['rates'] {
  return { stepsPerSecond: 0, samplesPerSecond: 0, bytesPerSecond: 0 };
}

function starting(rank: number): RankView {
  return { rank, presence: 'starting', isLocal: false, activity: 'unknown' };
}

function news(): NonNullable<JobView['news']> {
  return { generation: 3, resets: 2, standbys: 0, lastResets: [], pid: 1 };
}
