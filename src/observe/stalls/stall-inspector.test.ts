import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Channel } from '../../engine/channel.ts';
import type { Request } from '../../engine/request.ts';
import { inspectStalls, type StallInspection, type StallReport, stallNotice } from './stall-inspector.ts';

const limits = { stallCheck: true, stallWarningMs: 60_000, stallShutdownMs: 0 };

function channelWith(
  missing: number[],
  submittedAtMs: number,
  uneven?: string,
): { channel: Channel; request: Request } {
  const request = { description: { key: 'grad', kind: 'allreduce' }, submittedAtMs } as Request;
  const members = [0, 1, 2, 3];
  const channel = { pending: [request], missingFor: () => missing, members, uneven } as unknown as Channel;
  return { channel, request };
}

function inspect(channel: Channel, nowMs: number, more: Partial<StallInspection> = {}): StallReport {
  const warned = new WeakMap();
  const describePeer = (rank: number) => `rank ${rank}`;
  return inspectStalls({ channels: [channel], limits, nowMs, rank: 0, warned, describePeer, ...more });
}

describe('inspectStalls()', () => {
  test('says nothing before the time has come', () => {
    const { channel } = channelWith([1], 0);
    assert.deepEqual(inspect(channel, 59_000), { warnings: [], failure: undefined });
  });

  test('names operation, time and the missing ranks, but not this one', () => {
    const { channel } = channelWith([0, 1, 3], 0);
    const { warnings } = inspect(channel, 61_000);
    assert.equal(warnings.length, 1);
    assert.match(
      warnings[0]?.text ?? '',
      /^allreduce "grad" has waited 61 s: ranks 1, 3 have not called it\./,
    );
  });

  test('says so if only a few have called it: those are the ones to look at', () => {
    const { channel } = channelWith([1, 2, 3], 0);
    assert.match(
      inspect(channel, 61_000).warnings[0]?.text ?? '',
      /^allreduce "grad" has waited 61 s: only rank 0 has called it, and ranks 1, 2, 3 have not\. Rank 1\./,
    );
  });

  test('says where in their training the ranks are if that explains it', () => {
    const { channel } = channelWith([1], 0, 'Rank 0 has ended 3 steps, and rank 1 is in step 4.');
    const { text = '' } = inspect(channel, 61_000).warnings[0] ?? {};
    assert.match(
      text,
      /rank 1 has not called it\. Rank 1\. Rank 0 has ended 3 steps, and rank 1 is in step 4\.$/,
    );
  });

  test('repeats itself only after the same time again', () => {
    const { channel } = channelWith([1], 0);
    const warned = new WeakMap();
    const count = (nowMs: number) => inspect(channel, nowMs, { warned }).warnings.length;
    assert.deepEqual([60_000, 61_000, 100_000, 120_000, 121_000].map(count), [1, 0, 0, 1, 0]);
  });

  test('an operation that all have asked for is called slow, not missing', () => {
    const { channel } = channelWith([], 0);
    assert.match(inspect(channel, 60_000).warnings[0]?.text ?? '', /all ranks have called it/);
  });

  test('ends the job after stallShutdownMs', () => {
    const { channel } = channelWith([2], 0);
    const strict = { ...limits, stallShutdownMs: 90_000 };
    assert.equal(inspect(channel, 89_000, { limits: strict }).failure, undefined);
    const { failure } = inspect(channel, 90_000, { limits: strict });
    assert.equal(failure?.code, 'ERR_HVD_TIMEOUT');
    assert.equal(failure?.rank, 2);
    assert.equal(failure?.tensor, 'grad');
  });

  test('says what each missing rank does instead', () => {
    const { channel } = channelWith([1, 3], 0);
    const { warnings } = inspect(channel, 61_000, { describePeer: (rank) => `rank ${rank} sleeps` });
    assert.match(warnings[0]?.text ?? '', /ranks 1, 3 have not called it\. Rank 1 sleeps\. Rank 3 sleeps\. /);
  });

  test('of all that wait the first one warns', () => {
    const isFirst = (rank: number) => {
      const { channel } = channelWith([0, 3], 0);
      return inspect(channel, 61_000, { rank }).warnings[0]?.isFirst;
    };
    assert.deepEqual([1, 2].map(isFirst), [true, false]);
  });

  test('a join waits for the others to end, however long', () => {
    const { channel, request } = channelWith([1], 0);
    Object.assign(request.description, { kind: 'join' });
    const strict = { ...limits, stallShutdownMs: 60_000 };
    assert.deepEqual(inspect(channel, 1e6, { limits: strict }), { warnings: [], failure: undefined });
  });

  test('a shutdown before the warning does not take place, and that is said', () => {
    const odd = { ...limits, stallShutdownMs: 10_000 };
    const { channel } = channelWith([1], 0);
    assert.equal(inspect(channel, 61_000, { limits: odd }).failure, undefined);
    assert.match(
      stallNotice(odd) ?? '',
      /SHUTDOWN_TIME_SECONDS \(10\) is less than .* \(60\), will not shutdown/,
    );
    assert.equal(stallNotice({ ...odd, stallShutdownMs: 0 }), undefined);
    assert.equal(stallNotice({ ...odd, stallCheck: false }), undefined);
  });
});
