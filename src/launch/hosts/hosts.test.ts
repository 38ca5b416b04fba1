// Hosts, slots and ranks: tables of what is written and what comes out.

import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { test } from 'node:test';
import { parseHostfile, parseHosts, readHostfile } from './host-list.ts';
import { isLocalHost } from './local-host.ts';
import { planSlots } from './plan-slots.ts';

const brief = (plan: ReturnType<typeof planSlots>) =>
  plan.map(
    (slot) =>
      `${slot.hostname} ${slot.rank}/${slot.size} ${slot.localRank}/${slot.localSize} ${slot.crossRank}/${slot.crossSize}`,
  );

test('-H is a list of hosts with slots', () => {
  assert.deepEqual(parseHosts('localhost:2'), [{ name: 'localhost', slots: 2 }]);
  assert.deepEqual(parseHosts('worker-0:2, 10.0.0.1:4'), [
    { name: 'worker-0', slots: 2 },
    { name: '10.0.0.1', slots: 4 },
  ]);
  assert.deepEqual(parseHosts('[fd00::1]:2,node.example.org:1'), [
    { name: 'fd00::1', slots: 2 },
    { name: 'node.example.org', slots: 1 },
  ]);
});

for (const [text, expected] of [
  ['localhost', /"localhost" is not of the form HOST:SLOTS/],
  ['', /"" is not of the form/],
  ['a:2,', /"" is not of the form/],
  ['a:two', /"a:two"/],
  ['a:2:3', /"a:2:3"/],
  ['fd00::1:2', /"fd00::1:2"/],
  ['[fd00::x]:2', /"\[fd00::x\]:2"/],
  // It would be an option of ssh.
  ['-oProxyCommand=x:2', /is not of the form HOST:SLOTS/],
  ['a:0', /a has no slots/],
  ['a:1,a:2', /a is listed twice/],
] as const) {
  test(`-H ${JSON.stringify(text)} is rejected`, () => {
    assert.throws(() => parseHosts(text), { code: 'ERR_HVD_SETTING', message: expected });
  });
}

test('a hostfile has a line for each host; blank lines and comments are fine', () => {
  assert.deepEqual(parseHostfile('# my hosts\na slots=2\n\nb slots = 4 # big\r\n', 'hosts'), [
    { name: 'a', slots: 2 },
    { name: 'b', slots: 4 },
  ]);
  assert.deepEqual(parseHostfile('[fd00::1] slots=1\nfd00::2 slots=1', 'hosts'), [
    { name: 'fd00::1', slots: 1 },
    { name: 'fd00::2', slots: 1 },
  ]);
  for (const [text, expected] of [
    ['a slots=2\nb\n', /hosts:2: "b" is not of the form `HOST slots=N`/],
    ['a slots=2 max_slots=3', /hosts:1/],
    ['a slots=1\na slots=1', /listed twice/],
    ['# nothing\n', /lists no hosts/],
  ] as const) {
    assert.throws(() => parseHostfile(text, 'hosts'), { code: 'ERR_HVD_SETTING', message: expected });
  }
  assert.throws(() => readHostfile('/nowhere/hosts'), {
    message: /cannot read the hostfile \/nowhere\/hosts/,
  });
});

test('ranks fill the hosts in their order', () => {
  const hosts = parseHosts('a:2,b:2');
  assert.deepEqual(brief(planSlots(4, hosts)), [
    'a 0/4 0/2 0/2',
    'a 1/4 1/2 0/2',
    'b 2/4 0/2 1/2',
    'b 3/4 1/2 1/2',
  ]);
});

test('fewer processes than slots start just those', () => {
  assert.deepEqual(brief(planSlots(2, parseHosts('localhost:4'))), [
    'localhost 0/2 0/2 0/1',
    'localhost 1/2 1/2 0/1',
  ]);
  assert.deepEqual(brief(planSlots(1, parseHosts('a:1,b:1'))), ['a 0/1 0/1 0/1']);
});

test('hosts of different sizes have different cross sizes', () => {
  assert.deepEqual(brief(planSlots(4, parseHosts('a:1,b:3'))), [
    'a 0/4 0/1 0/2',
    'b 1/4 0/3 1/2',
    'b 2/4 1/3 0/1',
    'b 3/4 2/3 0/1',
  ]);
});

test('more processes than slots are rejected with both numbers', () => {
  assert.throws(() => planSlots(5, parseHosts('a:2,b:2')), {
    code: 'ERR_HVD_SETTING',
    message: /-np 5 is more than the 4 slots on a:2, b:2/,
  });
});

test('this machine is known by its names and addresses', async () => {
  for (const name of ['localhost', '127.0.0.1', '127.0.0.9', '::1', hostname()]) {
    assert.equal(await isLocalHost(name, 5000), true, name);
  }
  assert.equal(await isLocalHost('no-such-host.invalid', 5000), false);
  assert.equal(await isLocalHost('192.0.2.1', 5000), false);
});
