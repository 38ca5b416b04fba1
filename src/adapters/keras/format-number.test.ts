import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatDuration, formatGeneral, formatRate } from './format-number.ts';

test('numbers are written as %g writes them', () => {
  const table: [number, string][] = [
    [0.1, '0.1'],
    [0.0125, '0.0125'],
    [0.001 * 3, '0.003'],
    [1 / 3, '0.333333'],
    [0.0001, '0.0001'],
    [0.00001, '1e-05'],
    [123456, '123456'],
    [1234567, '1.23457e+06'],
    [1e10, '1e+10'],
    [100, '100'],
    [-2.5, '-2.5'],
    [0, '0'],
    [Number.POSITIVE_INFINITY, 'inf'],
    [Number.NaN, 'nan'],
    [0.9999999, '1'],
  ];
  for (const [value, text] of table) assert.equal(formatGeneral(value), text);
});

test('rates have thousands separators and a digit after the point where they are small', () => {
  assert.equal(formatRate(12345.6), '12,346');
  assert.equal(formatRate(3.14), '3.1');
  assert.equal(formatRate(Number.NaN), '–');
});

test('durations are minutes and seconds, with hours where there are any', () => {
  assert.equal(formatDuration(75), '1:15');
  assert.equal(formatDuration(4000), '1:06:40');
  assert.equal(formatDuration(0.2), '0:00');
});
