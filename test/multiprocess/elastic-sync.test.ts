// States of every framework between real ranks: one that has just come receives everything, and one that lacks the last commit
// receives that.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startFaultJob } from '../support/fault-job.ts';

describe('states are brought together', () => {
  for (const [backend, faces] of [
    ['cpu', ['tensorflow', 'keras', 'jax']],
    ['wasm', ['tensorflow', 'keras']],
  ] as const) {
    test(`${faces.join(', ')} on ${backend}`, async (t) => {
      const { run, ended } = startFaultJob(t, 3, 'elastic-sync.ts', { args: [backend] });
      const { exitCode } = await ended();
      assert.equal(exitCode, 0, `${run.stdout}\n${run.stderr}`);
      for (const face of faces) {
        assert.equal([...run.stdout.matchAll(new RegExp(`:${face} `, 'g'))].length, 3, run.stdout);
      }
    });
  }
});
