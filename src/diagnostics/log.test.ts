import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from './log.ts';

test('the log writes what is at or above its level, with the rank', () => {
  const lines: string[] = [];
  const log = createLog('warning', 3, (line) => lines.push(line));
  for (const level of ['trace', 'debug', 'info', 'warning', 'error', 'fatal'] as const)
    log.write(level, level);
  assert.deepEqual(lines, [
    '[horovod warning] rank 3: warning',
    '[horovod error] rank 3: error',
    '[horovod fatal] rank 3: fatal',
  ]);
});
