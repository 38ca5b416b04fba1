import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { describe, test } from 'node:test';
// The package as users have it: faults reach the copy of horovod that the script imports.
import { spawnRanks, startHorovodrun } from 'horovod/testing';
import { fixturePath } from '../../test/support/repository.ts';

const script = fixturePath('testing/steps.ts');

describe('spawnRanks() with faults', () => {
  test('without faults the script runs as it is', async () => {
    const { exitCode, ranks } = await spawnRanks(2, script);
    assert.equal(exitCode, 0);
    for (const { stdout } of ranks) assert.match(stdout, /^step 1\nstep 2\nstep 3\nstep 4\ndone after/);
  });

  test('kill: the rank is gone after its step, and the others get ERR_HVD_PEER_LOST', async () => {
    const { exitCode, ranks, stderr } = await spawnRanks(2, script, {
      faults: [{ rank: 1, step: 3, kind: 'kill' }],
    });
    assert.notEqual(exitCode, 0);
    assert.equal(ranks[1]?.stdout, 'step 1\nstep 2\n');
    assert.match(ranks[0]?.stdout ?? '', /step 3\ncaught ERR_HVD_PEER_LOST/);
    assert.match(stderr, /rank 1 .*SIGKILL/);
  });

  test('throw: the call that ended the step throws', async () => {
    const { ranks } = await spawnRanks(2, script, { faults: [{ rank: 0, step: 2, kind: 'throw' }] });
    assert.equal(ranks[0]?.stdout, 'step 1\ncaught injected fault: throw at step 2 of rank 0\n');
  });

  test('stop: the rank freezes and the others wait for it until their time-out', async () => {
    const { ranks } = await spawnRanks(2, script, {
      faults: [{ rank: 1, step: 1, kind: 'stop' }],
      args: ['500'],
    });
    assert.equal(ranks[1]?.stdout, '');
    assert.match(ranks[0]?.stdout ?? '', /step 1\ncaught ERR_HVD_TIMEOUT/);
  });

  test('delay: the rank blocks for a while and then goes on', async () => {
    const { exitCode, ranks } = await spawnRanks(2, script, {
      faults: [{ rank: 1, step: 2, kind: 'delay', delayMs: 300 }],
    });
    assert.equal(exitCode, 0);
    const [first, second] = ranks.map(({ stdout }) => Number(/done after (\d+) ms/.exec(stdout)?.[1]));
    assert.ok(first !== undefined && first >= 300, `rank 0 waited for it: ${first} ms`);
    assert.ok(second !== undefined && second >= 300, `${second} ms`);
  });

  test('faults that cannot happen are rejected', async () => {
    for (const [fault, words] of [
      [{ rank: 2, step: 1, kind: 'kill' }, /faults\[0\]\.rank must be one of 0 … 1, not 2/],
      [{ rank: 0, step: 0, kind: 'kill' }, /faults\[0\]\.step must be 1 or more, not 0/],
      [
        { rank: 0, step: 1, kind: 'burn' },
        /faults\[0\]\.kind must be one of kill, stop, throw, delay, not "burn"/,
      ],
      [{ rank: 0, step: 1, kind: 'delay', delayMs: -1 }, /faults\[0\]\.delayMs must be 0 or more, not -1/],
    ] as const) {
      // @ts-expect-error one of them has no kind that exists
      await assert.rejects(spawnRanks(2, script, { faults: [fault] }), words);
    }
  });
});

describe('startHorovodrun().waitForOutput()', () => {
  test('resolves with the match', async () => {
    const run = startHorovodrun(['-np', '1', '--', process.execPath, '-e', 'console.log("step 7")']);
    assert.equal((await run.waitForOutput(/step (\d)/))[1], '7');
    assert.equal((await run.ended).exitCode, 0);
  });

  test('rejects with stdout and stderr after its deadline, and the job goes on', async () => {
    const code =
      'console.log("up"); console.error("no data"); process.stdin.resume(); setInterval(() => {}, 1000)';
    const run = startHorovodrun(['-np', '1', '--', process.execPath, '-e', code]);
    try {
      await run.waitForOutput(/up/);
      // The two streams are read independently of each other.
      while (!run.stderr.includes('no data')) await once(run.child.stderr as Readable, 'data');
      await assert.rejects(run.waitForOutput(/never/, { timeoutMs: 50 }), {
        message:
          /^\/never\/ did not appear in stdout within 0\.05 s\.\n[\s\S]*stdout>:up[\s\S]*stderr>:no data/,
      });
      assert.equal(run.child.exitCode, null);
    } finally {
      run.child.kill('SIGTERM');
      await run.ended;
    }
  });

  test('rejects with stdout and stderr when horovodrun ends before', async () => {
    const code = 'console.log("up"); console.error("no data"); process.exit(3)';
    const run = startHorovodrun(['-np', '1', '--', process.execPath, '-e', code]);
    await assert.rejects(run.waitForOutput(/never/), {
      message: /before horovodrun ended\.\n[\s\S]*stdout>:up[\s\S]*stderr>:no data/,
    });
  });
});
