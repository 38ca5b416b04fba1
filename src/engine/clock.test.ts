import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { nowMs, nowUs } from './clock.ts';

const hostMs = () => Number(process.hrtime.bigint()) / 1e6;

test('the clock lies between two readings of the monotonic clock of the host', () => {
  // Rounding of performance.now() is all that may be between them.
  const toleranceMs = 0.05;
  for (let i = 0; i < 100; i++) {
    const [before, now, after] = [hostMs(), nowMs(), hostMs()];
    assert.ok(now >= before - toleranceMs && now <= after + toleranceMs, `${before} ${now} ${after}`);
  }
  assert.ok(Math.abs(nowUs() / 1e3 - nowMs()) < 1e3);
});

test('two processes have the same clock', () => {
  const script = `const { nowMs } = await import(${JSON.stringify(new URL('./clock.js', import.meta.url).href)});
    console.log(nowMs());`;
  const before = nowMs();
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  const other = Number(stdout);
  assert.ok(other > before && other < nowMs(), `${before} ${other}`);
});
