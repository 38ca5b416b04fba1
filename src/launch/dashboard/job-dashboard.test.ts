// What the page says first of a job that has failed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { causeFirst } from './job-dashboard.ts';

test('the rank that failed first is the headline, with its error, and the rest of the report follows', () => {
  const others = ['Other ranks:', '  rank 0 exited with code 1, because it lost rank 1', 'Exit code: 3'];
  const table: readonly [lines: readonly string[], headline: string][] = [
    [
      [
        '  rank 1 on a (pid 7) exited with code 3',
        '  Its error:',
        '    TypeError: x',
        '        at train.ts:7',
      ],
      'rank 1 on a (pid 7) exited with code 3: TypeError: x',
    ],
    [
      [
        '  rank 1 on a (pid 7) exited with code 3',
        '  RangeError: the loss is not finite',
        '      at train.ts:7',
      ],
      'rank 1 on a (pid 7) exited with code 3: RangeError: the loss is not finite',
    ],
    [
      ['  rank 1 on a (pid 7) was killed by SIGKILL', '  horovodrun did not send this signal.'],
      'rank 1 on a (pid 7) was killed by SIGKILL',
    ],
  ];
  for (const [lines, headline] of table) {
    const report = ['The job has failed. First failure:', ...lines, ...others].join('\n');
    assert.equal(causeFirst(report), [headline, ...lines.slice(1), ...others].join('\n'));
  }
});

test('other texts stay as they are', () => {
  for (const text of ['', 'received SIGTERM; stopping 2 ranks.', 'horovodrun: mpirun failed\nExit code: 5'])
    assert.equal(causeFirst(text), text);
});
