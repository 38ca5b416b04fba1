import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { describePeer } from './describe-peer.ts';
import type { RankStatus } from './rank-status.ts';

const now = 1_000_000;
const last = {
  sequence: 4711,
  kind: 'allreduce',
  name: 'grad.7',
  state: 'done',
  bytes: 4,
  atMs: now - 61_000,
} as const;
const status = {
  rank: 3,
  host: 'b',
  pid: 812,
  job: 'j',
  updatedAt: now - 400,
  step: 120,
  samples: 0,
  collectives: 4711,
  bytes: 0,
  rates: { stepsPerSecond: 0, samplesPerSecond: 0, bytesPerSecond: 0 },
  last,
  pending: [],
  rssBytes: 0,
} satisfies RankStatus;

describe('what a missing rank is doing', () => {
  const cases: [
    string,
    Partial<RankStatus> | undefined,
    Parameters<typeof describePeer>[0]['activity'],
    RegExp,
  ][] = [
    [
      'computes',
      {},
      'busy',
      /^rank 3 \(b, pid 812\) finished allreduce "grad\.7" \(number 4711\) 61 s ago, at step 120, and has been computing since \(CPU busy\)$/,
    ],
    ['sleeps', {}, 'idle', /, and has been sleeping since \(uses no CPU/],
    ['is stopped', {}, 'stopped', /, and is stopped by a signal \(SIGSTOP/],
    ['is on another host', {}, 'unknown', /61 s ago, at step 120$/],
    [
      'has not reported for long',
      { updatedAt: now - 60_000 },
      'busy',
      /had finished allreduce "grad\.7" \(number 4711\), at step 120 when it last reported, 60 s ago, and has been computing/,
    ],
    [
      'waits elsewhere',
      { pending: [{ label: 'allgather "x"', waitedMs: 59_600, missing: [0, 1] }] },
      'idle',
      /^rank 3 \(b, pid 812\) has been in allgather "x" for 60 s, waiting for ranks 0, 1, at step 120$/,
    ],
    ['has failed', { last: { ...last, state: 'failed' } }, 'unknown', /failed in allreduce "grad\.7"/],
    [
      'was inside when it last reported',
      { last: { ...last, state: 'pending' } },
      'busy',
      /was in allreduce "grad\.7"/,
    ],
    [
      'has no name',
      { last: { ...last, name: 'allreduce.noname.9' } },
      'unknown',
      /finished allreduce \(number 4711\)/,
    ],
    [
      'has called nothing',
      { last: undefined, step: 0 },
      'idle',
      /has called no collective yet, and has been sleeping/,
    ],
    [
      'had called nothing and has not reported for long',
      { last: undefined, step: 0, updatedAt: now - 60_000 },
      'busy',
      /had called no collective when it last reported, 60 s ago, and has been computing/,
    ],
    ['has shut down', { hasLeft: true }, 'ended', /^rank 3 \(b, pid 812\) has shut down$/],
    ['has never reported', undefined, 'unknown', /^rank 3 has not reported what it is doing$/],
    ['has never reported and is stopped', undefined, 'stopped', /^rank 3 is stopped by a signal/],
  ];
  for (const [what, changes, activity, expected] of cases) {
    test(`it ${what}`, () => {
      const said = changes === undefined ? undefined : { ...status, ...changes };
      assert.match(describePeer({ rank: 3, status: said, activity }, now), expected);
    });
  }
});
