import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolveHost } from './resolve-host.ts';

test('a name of this machine has its addresses', async () => {
  assert.deepEqual(await resolveHost('127.0.0.1', 20_000), ['127.0.0.1']);
});

test('a name that nobody knows has none, nor has one that nobody answers for', async () => {
  const refuse = () => Promise.reject(new Error('ENOTFOUND'));
  assert.deepEqual(await resolveHost('nowhere', 20_000, refuse), []);
  const silent = () => new Promise<never>(() => undefined);
  assert.deepEqual(await resolveHost('silent', 20, silent), []);
});
