// Promise forms that wait for the end of their tick: alone they run by themselves, with others they are requests of one batch.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FakeGroup } from '../../test/support/fake-group.ts';
import { HorovodError } from '../errors.ts';
import { Sum } from '../tensor/reduce-op.ts';
import { Channel, type LoneCall } from './channel.ts';
import { Observers } from './observer.ts';
import type { Request } from './request.ts';

function channelOf() {
  const group = new FakeGroup();
  const failures: HorovodError[] = [];
  const channel: Channel = new Channel(group, {
    rank: 0,
    processSet: 0,
    members: [0, 1],
    fusionThresholdBytes: 1 << 20,
    cycleTimeMs: 0,
    stallAfterMs: 500,
    observers: new Observers({ write() {}, tell() {} }),
    nowMs: () => 0,
    fail: (error) => {
      failures.push(error);
      channel.fail(error);
    },
    zeroRequest: () => assert.fail('nobody has joined'),
  });
  return { group, channel, failures };
}

function requestOf(key: string, events: string[], inputs = [new Float32Array(2)]): Request {
  return {
    description: {
      key,
      kind: 'allreduce',
      dtypes: ['float32'],
      shapes: [[2]],
      isGrouped: false,
      op: 'Sum',
      prescale: 1,
      postscale: 1,
      root: undefined,
      detail: '',
    },
    low: 1,
    high: key.charCodeAt(0),
    operations: [
      { kind: 'allreduce', dtype: 'float32', op: Sum, inputs, outputs: inputs, prescale: 1, postscale: 1 },
    ],
    timeoutMs: 1000,
    submittedAtMs: 0,
    isSettled: false,
    resolve: () => void events.push(`${key} done`),
    reject: (error) => void events.push(`${key} ${error.code}`),
  };
}

function loneCall(key: string, events: string[], inputs = [new Float32Array(2)]): LoneCall {
  const [input] = inputs as [Float32Array];
  return {
    inputBytes: input.byteLength,
    isIntact: () => input.byteLength === 8,
    run: () => void events.push(`${key} ran`),
    request: () => requestOf(key, events, inputs),
    reject: (error) => void events.push(`${key} rejected ${error.code}`),
  };
}

const tick = () => new Promise<void>((resolve) => setImmediate(resolve));
const keysOf = ({ batches }: FakeGroup) => batches.map(({ label }) => label);

describe('a deferred call', () => {
  test('runs by itself at the end of its tick, and not before', async () => {
    const { channel, group } = channelOf();
    const events: string[] = [];
    channel.defer(loneCall('a', events));
    assert.equal(channel.isQuiet, false);
    assert.deepEqual(events, []);
    await tick();
    assert.deepEqual(events, ['a ran']);
    assert.equal(channel.isQuiet, true);
    assert.deepEqual(keysOf(group), []);
  });

  test('goes in one batch with what is asked for in the same tick', async () => {
    const { channel, group } = channelOf();
    const events: string[] = [];
    channel.defer(loneCall('b', events));
    channel.submit(requestOf('a', events));
    await tick();
    assert.deepEqual(events, []);
    assert.deepEqual(keysOf(group), ['allreduce "a" and 1 more']);
  });

  test('holds its name: the same one again is an error', () => {
    const { channel } = channelOf();
    const events: string[] = [];
    channel.defer(loneCall('a', events));
    assert.throws(() => channel.submit(requestOf('a', events)), { code: 'ERR_HVD_DUPLICATE_NAME' });
  });

  test('ends with the failure of its channel', async () => {
    const { channel } = channelOf();
    const events: string[] = [];
    channel.defer(loneCall('a', events));
    channel.fail(new HorovodError('ERR_HVD_ABORTED', 'over'));
    await tick();
    assert.deepEqual(events, ['a rejected ERR_HVD_ABORTED']);
  });

  test('whose buffer is transferred before the end of the tick ends the job', async () => {
    const { channel, failures } = channelOf();
    const events: string[] = [];
    const input = new Float32Array(2);
    channel.defer(loneCall('a', events, [input]));
    structuredClone(input, { transfer: [input.buffer] });
    await tick();
    assert.deepEqual(
      failures.map(({ code }) => code),
      ['ERR_HVD_DETACHED'],
    );
  });
});
