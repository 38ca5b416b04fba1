// Which rank is to blame, and how the report says it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failureReport } from './report.ts';
import { blamedRank, exitCodeOf, findRootCause, type RankEnd } from './root-cause.ts';

function ended(rank: number, end: RankEnd['end'], more: Partial<RankEnd> = {}): RankEnd {
  return {
    rank,
    hostname: 'localhost',
    pid: 100 + rank,
    end,
    endedBy: undefined,
    lastWords: undefined,
    blamed: undefined,
    stderrTail: [],
    ...more,
  };
}

const lost = (blamed: number) => ({ blamed });

test('there is no cause when all ended well', () => {
  assert.equal(findRootCause([ended(0, { code: 0 }), ended(1, { code: 0 })]), undefined);
});

test('the first failure is to blame, not the first end', () => {
  assert.equal(findRootCause([ended(0, { code: 0 }), ended(2, { code: 3 }), ended(1, { code: 4 })])?.rank, 2);
});

test('a rank that died of another is not blamed, even if it ended first', () => {
  const ends = [
    ended(0, { code: 1 }, lost(2)),
    ended(1, { code: 1 }, lost(2)),
    ended(2, { signal: 'SIGKILL' }),
  ];
  assert.equal(findRootCause(ends)?.rank, 2);
});

test('blame is followed through several ranks, and a circle ends', () => {
  const chain = [ended(0, { code: 1 }, lost(1)), ended(1, { code: 1 }, lost(2)), ended(2, { code: 9 })];
  assert.equal(findRootCause(chain)?.rank, 2);
  const circle = [ended(0, { code: 1 }, lost(1)), ended(1, { code: 1 }, lost(0))];
  assert.ok(findRootCause(circle) !== undefined);
});

test('a rank that shut down early but ended well has not failed; the one that needed it has', () => {
  assert.equal(findRootCause([ended(1, { code: 0 }), ended(0, { code: 1 }, lost(1))])?.rank, 0);
});

test('a rank stopped by horovodrun is not the cause', () => {
  const ends = [ended(1, { signal: 'SIGTERM' }, { endedBy: 'SIGTERM' }), ended(0, { code: 5 })];
  assert.equal(findRootCause(ends)?.rank, 0);
  const wrapped = [ended(0, { code: 1 }, lost(1)), ended(1, { signal: 'SIGTERM' }, { endedBy: 'SIGTERM' })];
  assert.equal(findRootCause(wrapped)?.rank, 0);
});

test('a rank that was killed because it could still write into memory of others is not the cause', () => {
  const killed = ended(
    1,
    { signal: 'SIGKILL' },
    { endedBy: 'SIGKILL', wasKilledByFence: true, recorded: 'rank 0 waited 1.5 s in allreduce "x"' },
  );
  const gaveUp = ended(0, { code: 1 });
  assert.equal(findRootCause([killed, gaveUp])?.rank, 0);
  const text =
    'rank 1 on localhost (pid 101) was stopped by horovodrun (SIGKILL): the job had failed, and it could still write ' +
    'into the memory of other ranks';
  assert.ok(failureReport(gaveUp, [killed, gaveUp]).includes(`Other ranks:\n  ${text}\n`));
  // The others have caught the error and ended well.
  const ends = [killed, ended(0, { code: 0 })];
  const report = failureReport(findRootCause(ends) as RankEnd, ends);
  assert.ok(report.includes(`${text}\n  Reported by the ranks: rank 0 waited`));
  assert.doesNotMatch(report, /did not send this signal/);
});

test('a rank that ended by itself just before our signal reached it is no aftermath', () => {
  const ends = [ended(0, { code: 1 }, lost(1)), ended(1, { code: 3 }, { endedBy: 'SIGTERM' })];
  assert.equal(findRootCause(ends)?.rank, 1);
});

test('a rank died of another if its last words or the recorded failure say so', () => {
  const words = (code: string) => ({ name: 'HorovodError', message: '', stack: '', code, rank: 2 });
  const failure = { code: 'ERR_HVD_PEER_LOST', message: '', rank: 2 } as const;
  assert.equal(blamedRank(0, words('ERR_HVD_PEER_LOST'), undefined), 2);
  assert.equal(blamedRank(0, words('ERR_HVD_SHUT_DOWN'), undefined), 2);
  assert.equal(blamedRank(0, words('ERR_HVD_TIMEOUT'), failure), undefined);
  assert.equal(blamedRank(0, undefined, failure), 2);
  assert.equal(blamedRank(2, undefined, failure), undefined);
  assert.equal(blamedRank(0, undefined, undefined), undefined);
});

test('signals count from 128, as in shells', () => {
  assert.equal(exitCodeOf({ signal: 'SIGKILL' }), 137);
  assert.equal(exitCodeOf({ signal: 'SIGTERM' }), 143);
  assert.equal(exitCodeOf({ code: 3 }), 3);
});

test('the report has the first failure with its error, then the others in a line each', () => {
  const cause = ended(
    2,
    { code: 3 },
    {
      lastWords: {
        name: 'TypeError',
        message: 'x is not a function',
        stack: 'TypeError: x is not a function\n    at train.ts:7',
      },
      stderrTail: ['epoch 1 …'],
    },
  );
  const ends = [
    cause,
    ended(0, { code: 1 }, lost(2)),
    ended(3, { code: 0 }),
    ended(1, { signal: 'SIGKILL' }, { endedBy: 'SIGKILL' }),
  ];
  assert.equal(
    failureReport(cause, ends),
    `The job has failed. First failure:
  rank 2 on localhost (pid 102) exited with code 3
  Its error:
    TypeError: x is not a function
        at train.ts:7
  Last lines of its stderr:
    epoch 1 …
Other ranks:
  rank 0 on localhost (pid 100) exited with code 1, because it lost rank 2
  rank 1 on localhost (pid 101) was stopped by horovodrun (SIGKILL)
  rank 3 on localhost (pid 103) exited with code 0
Exit code: 3 (that of rank 2)`,
  );
});

test('one mistake of all ranks: the error without its stack, and the others in one line', () => {
  const lines = ['HorovodError: ERR_HVD_MISMATCH: …', '    at train.ts:7'];
  const same = (rank: number) =>
    ended(rank, { code: 1 }, { uncaught: { lines, stack: lines, sameAs: rank === 1 ? undefined : 1 } });
  const cause = same(2);
  const lone = ended(
    4,
    { code: 1 },
    { uncaught: { lines: ['Error: x'], stack: ['Error: x'], sameAs: undefined } },
  );
  assert.equal(
    failureReport(cause, [cause, same(0), same(1), same(3), lone]),
    `The job has failed. First failure:
  rank 2 on localhost (pid 102) exited with code 1
  HorovodError: ERR_HVD_MISMATCH: …
      at train.ts:7
Other ranks:
  ranks 0, 1, 3 exited with code 1, with the same error
  rank 4 on localhost (pid 104) exited with code 1
Exit code: 1 (that of rank 2)`,
  );
});

test('a rank that exits with code 0 in the middle of the job is the first failure', () => {
  const early = ended(1, { code: 0 }, { state: 'attached' });
  const ends = [early, ended(3, { code: 1 }, lost(1)), ended(0, { code: 5 }, lost(1))];
  const cause = findRootCause(ends);
  assert.equal(cause?.rank, 1);
  const report = failureReport(early, ends);
  assert.match(
    report,
    /First failure:\n {2}rank 1 .* exited with code 0 without calling shutdown\(\), while other ranks needed it\n/,
  );
  assert.match(report, /Exit code: 1 \(that of rank 3\)$/);
  // It may have called shutdown(), or nobody needed it.
  assert.equal(
    findRootCause([ended(1, { code: 0 }, { state: 'left' }), ended(3, { code: 1 }, lost(1))])?.rank,
    3,
  );
  assert.equal(findRootCause([early, ended(3, { code: 1 })])?.rank, 3);
});

test('an exception that stderr shows already is not shown twice', () => {
  const cause = ended(
    0,
    { code: 1 },
    {
      lastWords: { name: 'Error', message: 'boom', stack: 'Error: boom\n    at x' },
      stderrTail: ['Error: boom', '    at x'],
    },
  );
  assert.ok(!failureReport(cause, [cause]).includes('Its error'));
});

test('a SIGKILL that horovodrun did not send comes with the most likely cause', () => {
  const cause = ended(0, { signal: 'SIGKILL' });
  assert.match(
    failureReport(cause, [cause]),
    /was killed by SIGKILL\n {2}horovodrun did not send this signal\. .*memory/,
  );
});

test('a lost host is reported once, with all its ranks, also when others noticed it first', () => {
  const why = 'no message from its agent for 10 s (the network is down, or the machine is frozen or down)';
  const gone = { hostname: 'host2', lost: why };
  const ends = [
    ended(0, { code: 1 }, { hostname: 'host1', ...lost(2) }),
    ended(3, { code: 1 }, gone),
    ended(2, { code: 1 }, gone),
    ended(1, { signal: 'SIGTERM' }, { hostname: 'host1', endedBy: 'SIGTERM' }),
  ];
  const cause = findRootCause(ends);
  assert.equal(cause?.rank, 2);
  assert.equal(
    failureReport(cause, ends),
    [
      'The job has failed. First failure:',
      `  host2 was lost, with ranks 2, 3: ${why}`,
      'Other ranks:',
      '  rank 0 on host1 (pid 100) exited with code 1, because it lost rank 2',
      '  rank 1 on host1 (pid 101) was stopped by horovodrun (SIGTERM)',
      'Exit code: 1',
    ].join('\n'),
  );
});

test('hosts that do not hear each other: the report has what the ranks have recorded', () => {
  const recorded = 'host3 (rank 2) has not been heard for 10 s by host2.';
  const ends = [
    ended(1, { code: 1 }, { ...lost(2), hostname: 'host2', recorded }),
    ended(2, { code: 1 }, { ...lost(1), hostname: 'host3' }),
  ];
  const cause = findRootCause(ends) as RankEnd;
  assert.match(
    failureReport({ ...cause, recorded }, ends),
    /Reported by the ranks: host3 \(rank 2\) has not been heard/,
  );
  const killed = ended(0, { signal: 'SIGKILL' }, { recorded: 'rank 0 was killed by SIGKILL' });
  assert.doesNotMatch(failureReport(killed, [killed]), /Reported by the ranks/);
});
