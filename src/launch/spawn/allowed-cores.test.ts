import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allowedCores, crowdedHint } from './allowed-cores.ts';

const machine = (files: Record<string, string>) => (file: string) => {
  const text = files[file];
  if (text === undefined) throw new Error(`ENOENT: ${file}`);
  return text;
};

test('the smallest quota of a control group and those around it limits the cores', () => {
  const groups = { '/proc/self/cgroup': '0::/a/b\n', '/sys/fs/cgroup/a/b/cpu.max': 'max 100000\n' };
  assert.equal(allowedCores(machine(groups), 8), 8);
  assert.equal(allowedCores(machine({ ...groups, '/sys/fs/cgroup/a/cpu.max': '150000 100000\n' }), 8), 2);
  assert.equal(allowedCores(machine({ ...groups, '/sys/fs/cgroup/a/cpu.max': '50000 100000\n' }), 8), 1);
  const container = { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '400000 100000\n' };
  assert.equal(allowedCores(machine(container), 2), 2);
  assert.equal(allowedCores(machine(container), 8), 4);
  assert.equal(allowedCores(machine({}), 3), 3);
});

test('more ranks than cores get a hint', () => {
  assert.equal(crowdedHint(2, 2), undefined);
  assert.match(crowdedHint(4, 2) ?? '', /^4 ranks share 2 cores\. .*with 2 ranks\.$/);
  assert.match(crowdedHint(2, 1) ?? '', /^2 ranks share 1 core\. .*with 1 rank\.$/);
});
