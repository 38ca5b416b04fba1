import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { statusOf } from '../../../test/support/status-examples.ts';
import { decodeRankStatus, encodeRankStatus, type RankStatus } from './rank-status.ts';

const limit = 4080;

describe('the status of a rank', () => {
  test('is read as it was written', () => {
    const status: RankStatus = statusOf({
      last: { sequence: 7, kind: 'allreduce', name: 'grad', state: 'pending', bytes: 4, atMs: 5.5 },
      pending: [{ label: 'allreduce "grad"', waitedMs: 12, missing: [1, 2] }],
      waitMsPerStep: 3.25,
      data: { share: 0.34, starvedMs: 12_000, advice: 'read is the busiest stage (97 %).' },
    });
    assert.deepEqual(decodeRankStatus(encodeRankStatus(status, limit).toString()), status);
  });

  test('without what is not known has no such fields', () => {
    const status = decodeRankStatus(encodeRankStatus(statusOf({ last: undefined }), limit).toString());
    assert.deepEqual(
      Object.keys(status ?? {}).filter((key) => /last|wait/.test(key)),
      [],
    );
  });

  test('fits into its page however long the names are', () => {
    const long = 'ä'.repeat(5000);
    const missing = Array.from({ length: 1000 }, (_, rank) => rank + 1_000_000);
    const status = statusOf({
      host: long,
      last: { sequence: 7, kind: 'allreduce', name: long, state: 'done', bytes: 4, atMs: 5 },
      pending: Array.from({ length: 9 }, () => ({ label: long, waitedMs: 1.7, missing })),
      data: { share: 1, starvedMs: 1, advice: long },
    });
    const text = encodeRankStatus(status, limit);
    assert.ok(text.length <= limit, `${text.length} bytes`);
    assert.equal(decodeRankStatus(text.toString())?.pid, status.pid);
  });

  test('keeps four waits, with the first ranks that are missing', () => {
    const missing = Array.from({ length: 100 }, (_, rank) => rank);
    const pending = Array.from({ length: 9 }, (_, i) => ({ label: `wait ${i}`, waitedMs: 1, missing }));
    const read = decodeRankStatus(encodeRankStatus(statusOf({ pending }), limit).toString());
    assert.deepEqual(
      read?.pending.map(({ label }) => label),
      ['wait 0', 'wait 1', 'wait 2', 'wait 3'],
    );
    assert.deepEqual(read?.pending[0]?.missing, missing.slice(0, 32));
  });

  for (const [what, text] of [
    ['nothing', ''],
    ['no JSON', '{"rank":'],
    ['no object', '[1]'],
    ['null', 'null'],
    ['an object without fields', '{}'],
    ['a negative step', JSON.stringify({ ...statusOf({}), step: -1 })],
    ['a pid that is a text', JSON.stringify({ ...statusOf({}), pid: '12' })],
    ['a host that is a number', JSON.stringify({ ...statusOf({}), host: 5 })],
  ] as const) {
    test(`is not ${what}`, () => assert.equal(decodeRankStatus(text), undefined));
  }

  test('with parts that make no sense is read without them', () => {
    const odd = {
      ...statusOf({}),
      last: { kind: 5 },
      pending: [7, { label: 'x' }],
      rates: 'fast',
      waitMsPerStep: '3',
    };
    const { last, pending, rates, waitMsPerStep } = decodeRankStatus(JSON.stringify(odd)) ?? {};
    assert.deepEqual(
      { last, pending, rates, waitMsPerStep },
      {
        last: undefined,
        pending: [],
        rates: { stepsPerSecond: 0, samplesPerSecond: 0, bytesPerSecond: 0 },
        waitMsPerStep: undefined,
      },
    );
  });
});
