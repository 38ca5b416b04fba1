import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { makeShmWorld } from '../../../test/support/local-worlds.ts';
import { describeTransport } from '../../../test/support/transport-conformance.ts';
import { batchOf, round, submit, withWorld } from '../../../test/support/transport-world.ts';
import { loadNative } from '../native/load.ts';
import { BatchTrace, stage } from '../trace.ts';
import type { TransportGroup } from '../transport.ts';

const native = loadNative();

if (native.built) {
  describeTransport('shm, copying straight from memory to memory', makeShmWorld(true));
  describeTransport('shm, staging', makeShmWorld(false));
  describe('a rank that waits, blocking, for another', describeBlocking);
}

function describeBlocking(): void {
  const barrier = round({ kind: 'barrier' });
  const world = (body: (groups: readonly [TransportGroup, TransportGroup]) => Promise<void>) =>
    withWorld(makeShmWorld(false), 2, (groups) => body(groups as [TransportGroup, TransportGroup]));

  test('hears of the stall repeatedly, and records each stage once', () =>
    world(async ([first, second]) => {
      const trace = new BatchTrace(() => 0);
      let calls = 0;
      let other: Promise<unknown> = Promise.resolve();
      const onStall = (missing: readonly number[]): void => {
        if (++calls === 3) other = submit(second, batchOf([barrier]));
        else assert.deepEqual(missing, [1]);
      };
      const batch = batchOf([barrier], { stallAfterMs: 2, onStall, trace });
      assert.equal(first.runSync(batch), 'done');
      assert.equal(await other, 'done');
      assert.ok(calls >= 3);
      const stages = trace.marks.filter((_, i) => i % 2 === 0);
      assert.equal(stages.filter((each) => each === stage.posted).length, 1);
      assert.equal(stages.at(-1), stage.over);
    }));

  test('may close its group when it hears of it', () =>
    world(async ([first]) => {
      const close = (): void => first.close();
      const batch = batchOf([barrier], { stallAfterMs: 2, onStall: close });
      assert.throws(() => first.runSync(batch), { code: 'ERR_HVD_SHUT_DOWN' });
    }));

  test('may close it when it waits for a batch in the background', () =>
    world(async ([first]) => {
      const batch = batchOf([barrier, barrier], { stallAfterMs: 2, onStall: () => first.close() });
      const ended = submit(first, batch);
      assert.throws(() => first.waitSync(batch), { code: 'ERR_HVD_SHUT_DOWN' });
      await assert.rejects(ended, { code: 'ERR_HVD_SHUT_DOWN' });
    }));
}
