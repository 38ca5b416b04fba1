import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '../../console/log.ts';
import type { ProgressClock } from '../../console/progress.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { StartProgress } from './start-progress.ts';

/** Time stands still but for step(), which runs the timers that are due. */
function setUp() {
  const lines: string[] = [];
  const log = createLog({ logLevel: 'warning', logTime: false }, 0, { sink: (line) => lines.push(line) });
  let now = 0;
  let timers: { atMs: number; run: () => void }[] = [];
  const clock: ProgressClock = {
    nowMs: () => now,
    after(ms, run) {
      const timer = { atMs: now + ms, run };
      timers.push(timer);
      return () => {
        timers = timers.filter((each) => each !== timer);
      };
    },
  };
  const step = (ms: number) => {
    now += ms;
    const due = timers.filter(({ atMs }) => atMs <= now);
    timers = timers.filter(({ atMs }) => atMs > now);
    for (const { run } of due) run();
  };
  return { lines, log, step, progress: new StartProgress(clock) };
}

test('the first rank names those who are missing', () => {
  const { lines, log, step, progress } = setUp();
  const onMissing = progress.gathering([0, 1, 2, 3], 0, log);
  onMissing([1, 2, 3]);
  onMissing([2, 3]);
  step(3000);
  onMissing([]);
  progress.stage('opening the tcp transport');
  step(6000);
  progress.end();
  assert.deepEqual(lines, [
    '[horovod info] rank 0: starting: 2 of 4 ranks, waiting for ranks 2, 3, 3 s so far',
    '[horovod info] rank 0: starting: opening the tcp transport, 9 s so far',
    '[horovod info] rank 0: starting: ended after 9 s',
  ]);
});

test('the second rank speaks when the first may be the missing one; others do not', () => {
  for (const [place, expected] of [
    [
      1,
      ['[horovod info] rank 0: starting: waiting for rank 5, which brings the ranks together, 10 s so far'],
    ],
    [2, []],
  ] as const) {
    const { lines, log, step, progress } = setUp();
    progress.gathering([5, 6, 7], place, log);
    step(9999);
    step(1);
    assert.deepEqual(lines, expected);
    progress.end();
  }
});

test('a start that is quick says nothing', () => {
  const { lines, log, step, progress } = setUp();
  progress.gathering([0, 1], 0, log)([1]);
  step(2000);
  progress.end();
  step(60_000);
  assert.deepEqual(lines, []);
});

test('while it looks for the others, the first rank of a host says where', () => {
  for (const localRank of ['0', '1']) {
    const { lines, log, step, progress } = setUp();
    const settings = readSettings({
      HOROVOD_RANK: '0',
      HOROVOD_SIZE: '2',
      HOROVOD_LOCAL_RANK: localRank,
      HOROVOD_LOCAL_SIZE: '2',
      HOROVOD_RENDEZVOUS_ADDR: 'host1:4711',
    });
    progress.joining(settings, log);
    step(3000);
    progress.end();
    const said = lines.filter((line) => /looking for the other ranks at host1:4711/.test(line));
    assert.equal(said.length, localRank === '0' ? 1 : 0, lines.join('\n'));
  }
});
