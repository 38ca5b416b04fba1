// npm run bench:chaos in short: training goes on through faults of every kind, and comes to the same result.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { canUseBox } from '../support/box.ts';
import { repository } from '../support/repository.ts';

interface ChaosResult {
  readonly injected: readonly { readonly kind: string }[];
  readonly stepsWithOtherSamples: readonly number[];
  readonly differentLosses: number;
  readonly losses: { readonly difference: number };
  readonly undisturbed: { readonly steps: number; readonly numTensors: number };
  readonly disturbed: { readonly steps: number; readonly numTensors: number };
}

test('ranks are killed and stopped, a host is cut off and removed: every step has its samples, and the loss is the same', {
  skip: canUseBox(),
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-chaos-'));
  const json = join(folder, 'result.json');
  const [seconds, faults] = [10, 8];
  try {
    await promisify(execFile)(
      process.execPath,
      ['bench/chaos.mjs', '--seconds', `${seconds}`, '--faults', `${faults}`, '--seed', '3', '--json', json],
      { cwd: repository, maxBuffer: 1 << 24 },
    );
    const result = JSON.parse(readFileSync(json, 'utf8')) as ChaosResult;
    assert.equal(result.injected.length, faults);
    assert.equal(result.disturbed.steps, result.undisturbed.steps);
    assert.deepEqual(result.stepsWithOtherSamples, []);
    assert.equal(result.differentLosses, 1, 'the loss is not the same on all ranks');
    assert.ok(result.losses.difference < 1e-3, `the losses differ by ${result.losses.difference}`);
    assert.equal(result.disturbed.numTensors, result.undisturbed.numTensors);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
