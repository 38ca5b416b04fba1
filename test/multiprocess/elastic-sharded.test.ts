// Sharded optimizer state in elastic jobs: a lost rank takes its shard with it, and the job goes on from the copy of another rank.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { startFaultJob } from '../support/fault-job.ts';

interface Finished {
  readonly worker: number;
  readonly step: number;
  readonly weights: readonly number[];
  readonly local: number;
  readonly shard: number;
  readonly stale: string;
  readonly references: readonly number[];
  readonly sizes: readonly number[];
  readonly from: readonly number[];
}

const elastic = ['--min-np', '1', '--blacklist-cooldown-range', '0.1', '0.2'];

async function train(
  t: TestContext,
  deaths: string,
  { flags = elastic, fixture = 'elastic-sharded.ts' }: { flags?: readonly string[]; fixture?: string } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const env = { HOROVOD_ELASTIC_VERIFY: '1' };
  const { run, ended } = startFaultJob(t, 3, fixture, { args: [folder, deaths], flags, env });
  const { exitCode } = await ended();
  const transcript = `${run.stdout}\n${run.stderr}`;
  const finished = [...run.stdout.matchAll(/finished (\{.*\})$/gm)].map(
    ([, text]) => (JSON.parse(text as string) as { value: Finished }).value,
  );
  return { exitCode, transcript, finished };
}

function assertClose(actual: readonly number[], expected: readonly number[], text: string): void {
  assert.equal(actual.length, expected.length, text);
  actual.forEach((value, i) => {
    const wanted = expected[i] as number;
    assert.ok(
      Math.abs(value - wanted) <= 1e-4 * Math.max(1, Math.abs(wanted)),
      `${value}, ${wanted}\n${text}`,
    );
  });
}

describe('sharded optimizer state in an elastic job', () => {
  test('after losses and with new ranks, the weights are those of a job that nothing happened to', async (t) => {
    const undisturbed = await train(t, '', { flags: [] });
    assert.equal(undisturbed.exitCode, 0, undisturbed.transcript);
    // Two losses, one after the other, and a replacement for each: 3 → 2 → … → 3 ranks.
    const { exitCode, transcript, finished } = await train(t, '1:14,0:27');
    assert.equal(exitCode, 0, transcript);
    assert.equal(finished.length, 3, transcript);
    const [expected] = undisturbed.finished as [Finished];
    for (const { step, weights, shard } of finished) {
      assert.equal(step, 60, transcript);
      assert.deepEqual(weights, finished[0]?.weights, 'equal on all ranks, bit by bit');
      assertClose(weights, expected.weights, transcript);
      // Of 56 elements each rank has a third; the local variable has one of its own.
      assert.ok([20, 19].includes(shard), `${shard}\n${transcript}`);
    }
    const survivor = finished.find(({ worker }) => worker === 2) as Finished;
    assert.ok(survivor.sizes.length >= 4, transcript);
    assert.ok(survivor.local > 0.3, `its own local variable was trained on: ${survivor.local}`);
    // Training starts again at the last commit with copies: mirrorEvery is 4.
    assert.equal(survivor.from[1], 12, transcript);
    assert.match(transcript, /2 ranks continue after \d+ ms, 2 steps repeated \(generation 2\)/);
  });

  test('the same with jax', async (t) => {
    const fixture = 'elastic-jax-sharded.ts';
    const undisturbed = await train(t, '', { flags: [], fixture });
    assert.equal(undisturbed.exitCode, 0, undisturbed.transcript);
    const { exitCode, transcript, finished } = await train(t, '1:14,0:27', { fixture });
    assert.equal(exitCode, 0, transcript);
    assert.equal(finished.length, 3, transcript);
    const [expected] = undisturbed.finished as [Finished];
    for (const { step, weights, shard, stale } of finished) {
      assert.equal(step, 60, transcript);
      assert.deepEqual(weights, finished[0]?.weights, 'equal on all ranks, bit by bit');
      assertClose(weights, expected.weights, transcript);
      // Of 56 elements each rank has a third.
      assert.equal(shard, 19, transcript);
      assert.equal(stale, 'ERR_HVD_INVALID_ARGUMENT', 'a state that the optimizer has not made');
    }
    const survivor = finished.find(({ worker }) => worker === 2) as Finished;
    assert.ok(survivor.sizes.length >= 4, transcript);
    assert.equal(survivor.from[1], 12, transcript);
    // One of the state; the last commit and a mirrored one may have the same array.
    for (const count of survivor.references) assert.ok(count >= 2 && count <= 3, transcript);
  });

  test('a shard that is lost together with its copy ends the job, with an error that says so', async (t) => {
    const { exitCode, transcript, finished } = await train(t, '1+2:14');
    assert.notEqual(exitCode, 0);
    assert.equal(finished.length, 0);
    assert.match(transcript, /ERR_HVD_STATE_LOST.*lost rank 1 .*, rank 2 .*shard 1 of 3 of commit 12/);
  });
});
