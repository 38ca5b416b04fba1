import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProcessSet } from '../../operations/process-set.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { createContext } from './bootstrap.ts';

const start = (options: Parameters<typeof createContext>[1]) =>
  createContext(readSettings({}), options, 1, new ProcessSet([]));

test('init with a signal that was aborted before is an error with our code and the reason', async () => {
  const reason = new Error('no time');
  await assert.rejects(start({ signal: AbortSignal.abort(reason) }), {
    code: 'ERR_HVD_ABORTED',
    cause: reason,
  });
});

test('a process without a launcher is rank 0 of 1', async () => {
  const context = await start({});
  assert.deepEqual([context.world.rank, context.world.size, context.transportName], [0, 1, 'memory']);
  context.close();
});

test('init of ranks that do not exist, or without this rank, says what is wrong', async () => {
  await assert.rejects(start({ ranks: [0, 1] }), { code: 'ERR_HVD_INVALID_ARGUMENT', message: /below 1/ });
  await assert.rejects(start({ ranks: [] }), { code: 'ERR_HVD_INVALID_ARGUMENT' });
});
