// Errors of ranks, with the place in the notebook.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notebookText } from '../../../test/support/notebook-file.ts';
import { LogRing } from '../../observe/dashboard/log-ring.ts';
import { programError } from './cell-error.ts';
import { parseNotebook } from './cells/notebook.ts';
import { printedError } from './printed-error.ts';

const notebook = parseNotebook(
  '/home/ann/my (train).ipynb',
  notebookText([
    "import * as hvd from 'horovod';\nimport { loss } from './loss.js';",
    { source: 'function step() {\n  loss();\n}', count: 7 },
    "const { parse } = await import('yam');\nstep();",
    'Deno.exit();',
  ]),
);
const program = { name: 'my (train).ipynb', notebook };

function detailOf(lines: readonly string[]): string {
  return programError(program, { rank: 2, name: 'rank 2', lines }, '', 1).detail;
}

test('the first frame in a cell counts: deeper ones are in libraries', () => {
  const detail = detailOf([
    'TypeError: x is undefined',
    'in two lines',
    '    at loss (/home/ann/loss.ts:3:5)',
    '    at step (/home/ann/my (train).ipynb cell 2:2:3)',
    '    at /home/ann/my (train).ipynb cell 3:2:1',
  ]);
  assert.equal(
    detail,
    `launch: rank 2 failed in my (train).ipynb, cell 2 (In [7]), line 2: TypeError: x is undefined
in two lines

  1 | function step() {
> 2 |   loss();
    |   ^
  3 | }`,
  );
});

test('imports that fail are found in the cells', () => {
  const header = 'launch: rank 2 failed in my (train).ipynb, cell';
  for (const [message, place, quoted] of [
    [
      "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'yam' imported from /home/ann/my (train).ipynb",
      '3, line 1',
      '> 1 | const { parse }',
    ],
    [
      "Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/home/ann/loss.js' imported from /home/ann/my (train).ipynb",
      '1, line 2',
      '> 2 | import { loss }',
    ],
    [
      "SyntaxError: The requested module './loss.js' does not provide an export named 'loss'",
      '1, line 2',
      '> 2 | import { loss }',
    ],
  ] as const) {
    const detail = detailOf([
      message,
      '    at finalizeResolution (node:internal/modules/esm/resolve:283:11)',
    ]);
    assert.ok(detail.startsWith(`${header} ${place}: ${message}\n\n`), detail);
    assert.ok(detail.includes(quoted), detail);
  }
});

test('what only a kernel has gets advice', () => {
  const detail = detailOf(['ReferenceError: Deno is not defined', '    at my (train).ipynb cell 4:1:1']);
  assert.match(
    detail,
    /cell 4, line 1: ReferenceError: Deno is not defined\. Only its kernel has it: give the cell the tag `skip`/,
  );
});

test('errors without a place in a cell, or without a stack, are told as they are', () => {
  assert.equal(
    detailOf(['Error: elsewhere', '    at /home/ann/other.ipynb cell 2:1:1']),
    'launch: rank 2 failed in my (train).ipynb: Error: elsewhere',
  );
  assert.equal(detailOf(['Error: bare']), 'launch: rank 2 failed in my (train).ipynb: Error: bare');
  const killed = programError(program, undefined, 'The job has failed. First failure: …', 137);
  assert.equal(killed.detail, 'launch: my (train).ipynb has failed. The job has failed. First failure: …');
  assert.equal(killed.exitCode, 137);
});

test('of ranks that mpirun has started, the error is found in their output', () => {
  const logs = new LogRing({ ranks: 3 });
  const print = (rank: number, text: string) => {
    for (const line of text.split('\n')) logs.add(rank, 'stderr', line);
  };
  print(0, 'epoch 1\nno error here');
  assert.equal(printedError(undefined, logs, 3), undefined);
  print(1, 'Error: caught\n    at early (a.ts:1:1)\nepoch 1');
  print(
    1,
    'my (train).ipynb cell 2:2\n  loss();\n  ^\n\nRangeError: x\n    at step (b.ts:1:1)\n    at c.ts:2:1\n\nNode.js v20.20.2',
  );
  const error = printedError(undefined, logs, 3);
  const lines = ['RangeError: x', '    at step (b.ts:1:1)', '    at c.ts:2:1'];
  assert.deepEqual(error, { rank: 1, name: 'rank 1', lines });
});
