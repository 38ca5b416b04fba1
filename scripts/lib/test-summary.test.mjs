import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { mergeAttempts } from './node-tests.mjs';
import { summaryLines, totalOf } from './test-summary.mjs';

function resultOf(file, passed, titles = [], seconds = 1) {
  const failures = titles.map((title) => ({ file, title, text: `first error of ${title}` }));
  return { file, passed, failed: titles.length, skipped: 0, seconds, failures };
}

describe('the second attempt', () => {
  const first = [resultOf('a', 5), resultOf('b', 3, ['b › slow', 'b › broken'])];
  const second = [resultOf('b', 4, ['b › broken'])];

  test('replaces the first, so that no test counts twice', () => {
    const { files, flaky } = mergeAttempts(first, second, { flakyFails: false });
    assert.deepEqual(
      files.map(({ file, passed, failed, seconds }) => [file, passed, failed, seconds]),
      [
        ['a', 5, 0, 1],
        ['b', 4, 1, 2],
      ],
    );
    assert.deepEqual(flaky, [{ file: 'b', title: 'b › slow', text: 'first error of b › slow' }]);
  });

  test('on CI, what passes then has failed', () => {
    const { files, flaky } = mergeAttempts(first, second, { flakyFails: true });
    assert.deepEqual([files[1].passed, files[1].failed, flaky.length], [3, 2, 1]);
  });

  test('a file that timed out the first time counts as one flaky test', () => {
    const { files, flaky } = mergeAttempts([resultOf('a', 0, ['a'])], [resultOf('a', 9)], {
      flakyFails: true,
    });
    assert.deepEqual([files[0].passed, files[0].failed, flaky.length], [8, 1, 1]);
  });
});

describe('the summary', () => {
  const unit = { stage: { name: 'unit' }, result: { passed: 7, failed: 0, skipped: 1 }, seconds: 1 };
  const again = {
    stage: { name: 'node24', repeats: 'unit' },
    result: { passed: 6, failed: 1, skipped: 1 },
    seconds: 1,
  };

  test('tests that run again under other conditions count once, their failures always', () => {
    assert.deepEqual(totalOf([unit, again]), { passed: 7, failed: 1, skipped: 1 });
    assert.deepEqual(totalOf([again]), { passed: 6, failed: 1, skipped: 1 });
    assert.match(summaryLines([unit, again]).join('\n'), /6 passed again, 1 failed/);
  });

  test('lists the ten slowest files, flaky tests with their first error, and ends with the numbers', () => {
    const files = Array.from({ length: 12 }, (_, i) => resultOf(`f${i}.test.ts`, 1, [], i));
    const flaky = [{ file: 'f1', title: 'f1 › sometimes', text: '  why' }];
    const result = { passed: 12, failed: 0, skipped: 0, files, flaky };
    const lines = summaryLines([{ stage: { name: 'unit' }, result, seconds: 9 }]);
    const slowest = lines.filter((line) => /\.test\.ts$/.test(line));
    assert.deepEqual(
      slowest.map((line) => line.trim().split(/\s+/)),
      [11, 10, 9, 8, 7, 6, 5, 4, 3, 2].map((i) => [`${i}.0`, 's', 'unit', `f${i}.test.ts`]),
    );
    assert.match(lines.join('\n'), /⚠ flaky, passed only at the second attempt: f1 › sometimes\n {2}why/);
    assert.equal(lines.at(-1), '\n12 passed, 0 failed');
  });
});
