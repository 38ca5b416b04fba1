import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HostProgress } from './host-progress.ts';

test('hosts that do not answer are named after a while', () => {
  const lines: string[] = [];
  let now = 0;
  let run = () => {};
  const clock = {
    nowMs: () => now,
    after(_ms: number, timer: () => void) {
      run = timer;
      return () => {
        run = () => {};
      };
    },
  };
  const progress = new HostProgress(['host2', 'host3', 'host4'], (line) => lines.push(line), clock);
  progress.answered('host3');
  now = 3000;
  run();
  progress.answered('host2');
  progress.answered('host4');
  now = 5000;
  progress.end();
  assert.deepEqual(lines, [
    'connecting to the hosts: 1 of 3 hosts, waiting for host2, host4, 3 s so far',
    'connecting to the hosts: ended after 5 s',
  ]);
});
