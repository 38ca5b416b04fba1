import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { loadNative } from '../../native/load.ts';
import { describePlane } from '../../testing/plane-conformance.ts';
import { jobOf, type PlaneWorld, round, submit, withWorld } from '../../testing/plane-world.ts';
import { ControlBlock } from '../control-block.ts';
import type { PlaneGroup } from '../plane.ts';
import { JobTrace, stage } from '../trace.ts';
import { ShmPlane } from './shm-plane.ts';

const native = loadNative();

function makeWorld(cma: boolean): (ranks: number) => Promise<PlaneWorld> {
  return async (ranks) => {
    if (!native.built) throw new Error(native.reason);
    const control = ControlBlock.create(ranks);
    const planes = Array.from({ length: ranks }, (_, rank) => {
      control.attach(rank);
      const limits = { timeoutMs: 20_000, stallAfterMs: 0 };
      return new ShmPlane(native.addon, control, { rank, localSize: ranks, cma, ...limits });
    });
    return { planes, close: () => control.close() };
  };
}

if (native.built) {
  describePlane('shm, copying straight from memory to memory', makeWorld(true));
  describePlane('shm, staging', makeWorld(false));
  describe('a rank that waits, blocking, for another', describeBlocking);
}

function describeBlocking(): void {
  const barrier = round({ kind: 'barrier' });
  const world = (body: (groups: readonly [PlaneGroup, PlaneGroup]) => Promise<void>) =>
    withWorld(makeWorld(false), 2, (groups) => body(groups as [PlaneGroup, PlaneGroup]));

  test('hears again and again that it is late, and notes each stage down once', () =>
    world(async ([first, second]) => {
      const trace = new JobTrace(() => 0);
      let calls = 0;
      let other: Promise<unknown> = Promise.resolve();
      const onStall = (missing: readonly number[]): void => {
        if (++calls === 3) other = submit(second, jobOf([barrier]));
        else assert.deepEqual(missing, [1]);
      };
      const job = jobOf([barrier], { stallAfterMs: 2, onStall, trace });
      assert.equal(first.runSync(job), 'done');
      assert.equal(await other, 'done');
      assert.ok(calls >= 3);
      const stages = trace.marks.filter((_, i) => i % 2 === 0);
      assert.equal(stages.filter((each) => each === stage.posted).length, 1);
      assert.equal(stages.at(-1), stage.over);
    }));

  test('may close its group when it hears that', () =>
    world(async ([first]) => {
      const close = (): void => first.close();
      const job = jobOf([barrier], { stallAfterMs: 2, onStall: close });
      assert.throws(() => first.runSync(job), { code: 'ERR_HVD_SHUT_DOWN' });
    }));

  test('may close it when it waits for a job in the background', () =>
    world(async ([first]) => {
      const job = jobOf([barrier, barrier], { stallAfterMs: 2, onStall: () => first.close() });
      const ended = submit(first, job);
      assert.throws(() => first.waitSync(job), { code: 'ERR_HVD_SHUT_DOWN' });
      await assert.rejects(ended, { code: 'ERR_HVD_SHUT_DOWN' });
    }));
}
