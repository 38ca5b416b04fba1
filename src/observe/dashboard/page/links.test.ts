import assert from 'node:assert/strict';
import { test } from 'node:test';
import { safeHref } from './links.ts';

const base = 'http://127.0.0.1:4000/proxy/x/';
const table: readonly (readonly [string, string | undefined])[] = [
  ['timeline-1.html', 'http://127.0.0.1:4000/proxy/x/timeline-1.html'],
  ['https://example.org/a', 'https://example.org/a'],
  ['javascript:alert(1)', undefined],
  ['JavaScript\n:alert(1)', undefined],
  ['data:text/html,<script>alert(1)</script>', undefined],
  ['file:///etc/passwd', undefined],
  ['http://[', undefined],
];
for (const [url, expected] of table) {
  test(`${JSON.stringify(url)} ${expected === undefined ? 'is not opened' : 'is opened'}`, () => {
    assert.equal(safeHref(url, base), expected);
  });
}

test('in a saved page, what was beside the live one is gone', () => {
  assert.equal(safeHref('timeline-1.html', 'file:///tmp/run.html'), undefined);
});
