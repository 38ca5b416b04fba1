import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytes, count, duration, logTick, metric, milliseconds, percent, rate, tick } from './figures.ts';

const table: readonly (readonly [string, string])[] = [
  [duration(0.4), '0 s'],
  [duration(59.6), '1 min 00 s'],
  [duration(3725), '1 h 02 min'],
  [duration(200_000), '2 days 7 h'],
  [milliseconds(undefined), '–'],
  [milliseconds(0), '0 ms'],
  [milliseconds(1.234), '1.23 ms'],
  [milliseconds(12.34), '12.3 ms'],
  [milliseconds(999.6), '1000 ms'],
  [milliseconds(12_345), '12.3 s'],
  [bytes(undefined), '–'],
  [bytes(512), '512 B'],
  [bytes(1.5 * 1024 ** 3), '1.5 GiB'],
  [bytes(300 * 1024 ** 2), '300 MiB'],
  [percent(0.385), '39 %'],
  [count(1234567), '1\u202f234\u202f567'],
  [rate(0), '–'],
  [rate(12.34), '12.3'],
  [metric('NaN'), 'NaN'],
  [metric(0.41171), '0.4117'],
  [metric(0.00001234), '1.23e-5'],
  [metric(3), '3'],
  [tick(0.5, 0.5), '0.5'],
  [tick(1, 0.5), '1.0'],
  [tick(0.75, 0.25), '0.75'],
  [tick(0.002, 0.002), '0.002'],
  [tick(200, 50), '200'],
  [tick(0, 0.5), '0'],
  [logTick(0.05), '0.05'],
  [logTick(0.00002), '2e-5'],
];
for (const [shown, expected] of table) {
  test(`a figure is shown as ${expected}`, () => {
    assert.equal(shown, expected);
  });
}
