import assert from 'node:assert/strict';
import { test } from 'node:test';
import { statusOf } from '../../../test/support/status-examples.ts';
import { LoggedMetrics, maxMetricNameLength, maxMetrics } from './logged-metrics.ts';
import { decodeRankStatus, encodeRankStatus } from './rank-status.ts';

const code = 'ERR_HVD_INVALID_ARGUMENT';

test('the newest value of each name is kept, in the order of the names', () => {
  const metrics = new LoggedMetrics();
  assert.equal(metrics.list, undefined);
  metrics.log({ loss: 2, accuracy: 0.5 });
  metrics.log({ lr: 0.1, loss: 1 });
  assert.deepEqual(metrics.list, [
    ['loss', 1],
    ['accuracy', 0.5],
    ['lr', 0.1],
  ]);
});

test('what is no metric is rejected, with its name', () => {
  const metrics = new LoggedMetrics();
  assert.throws(() => metrics.log(3 as never), { code, message: /expected an object such as/ });
  assert.throws(() => metrics.log({ loss: '1' as never }), {
    code,
    message: /"loss" must be a number, not "1"/,
  });
  assert.throws(() => metrics.log({ '': 1 }), { code, message: /1 to 48 characters/ });
  assert.throws(() => metrics.log({ ['x'.repeat(maxMetricNameLength + 1)]: 1 }), { code, message: /not 49/ });
});

test('there is room for so many names, and for new values of them always', () => {
  const metrics = new LoggedMetrics();
  for (let i = 0; i < maxMetrics; i++) metrics.log({ [`m${i}`]: i });
  assert.throws(() => metrics.log({ more: 1 }), { code, message: /at most 16 metrics, and "more"/ });
  metrics.log({ m0: 7 });
  assert.deepEqual(metrics.list?.[0], ['m0', 7]);
});

test('a status page has them, also NaN, infinite and negative values', () => {
  const metrics = [
    ['loss', -0.25],
    ['a', Number.NaN],
    ['b', Number.POSITIVE_INFINITY],
    ['c', Number.NEGATIVE_INFINITY],
  ] as const;
  const page = encodeRankStatus(statusOf({ metrics }), 4080);
  assert.deepEqual(decodeRankStatus(page.toString())?.metrics, metrics);
});

test('the longest names fit into a page, and metrics of a damaged page are left out', () => {
  const long = '€'.repeat(maxMetricNameLength - 2);
  const metrics = Array.from({ length: maxMetrics }, (_, i) => [`${long}${i + 10}`, Math.PI] as const);
  const page = encodeRankStatus(statusOf({ metrics }), 4080);
  assert.ok(page.length <= 4080, `${page.length} bytes`);
  assert.equal(decodeRankStatus(page.toString())?.metrics?.length, maxMetrics);
  const damaged = { ...statusOf({}), metrics: [['loss', {}], 'x', [1, 2], ['ok', 'NaN'], ['acc', 'one']] };
  assert.deepEqual(decodeRankStatus(JSON.stringify(damaged))?.metrics, [['ok', Number.NaN]]);
  assert.equal(decodeRankStatus(JSON.stringify({ ...statusOf({}), metrics: 3 }))?.metrics, undefined);
});
