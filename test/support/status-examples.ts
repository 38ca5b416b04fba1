// A typical status and a typical view of a rank. Tests override single fields.

import type { RankView } from '../../src/observe/status/job-view.ts';
import type { RankStatus } from '../../src/observe/status/rank-status.ts';

export function statusOf(given: Partial<RankStatus>): RankStatus {
  return {
    rank: 0,
    host: 'host1',
    pid: 4121,
    job: '1a2b3c4d',
    updatedAt: 1_000_000,
    step: 120,
    samples: 3840,
    collectives: 841,
    bytes: 3e8,
    rssBytes: 190_840_832,
    rates: { stepsPerSecond: 25.4, samplesPerSecond: 812.34, bytesPerSecond: 32_500_000 },
    last: {
      sequence: 841,
      kind: 'allreduce',
      name: 'allreduce.noname.841',
      state: 'done',
      bytes: 4,
      atMs: 999_900,
    },
    pending: [],
    ...given,
  };
}

export function viewOf(given: Partial<RankView>): RankView {
  return { rank: 0, presence: 'here', isLocal: true, activity: 'busy', status: statusOf({}), ...given };
}
