// Host discovery: what a script prints, and what happens when it fails, hangs or prints nonsense.

import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { PlanHost } from '../../rendezvous/driver/plan.ts';
import {
  functionFinder,
  HostDiscovery,
  type HostFinder,
  parseDiscovered,
  scriptFinder,
} from './discovery.ts';

test('hosts and slots (test_find_available_hosts_and_slots)', () => {
  assert.deepEqual(parseDiscovered('host-1\nhost-2:2\n\n# none\n[fd00::1]:3\n10.0.0.1\n', 4, 'hosts.sh'), [
    { name: 'host-1', slots: 4 },
    { name: 'host-2', slots: 2 },
    { name: 'fd00::1', slots: 3 },
    { name: '10.0.0.1', slots: 4 },
  ]);
  assert.deepEqual(parseDiscovered('a:0\n', 1, 'hosts.sh'), []);
  assert.deepEqual(parseDiscovered('a:2\nb\na:2\nb:1\n', 1, 'hosts.sh'), [
    { name: 'a', slots: 2 },
    { name: 'b', slots: 1 },
  ]);
  for (const [text, expected] of [
    ['-oProxyCommand=x', /hosts\.sh printed "-oProxyCommand=x", which is not HOST or HOST:SLOTS/],
    ['a b', /printed "a b"/],
    ['a:two', /printed "a:two"/],
    ['a\na:2', /hosts\.sh printed a with 1 and with 2 slots/],
    ['fd00::1', /printed "fd00::1"/],
  ] as const)
    assert.throws(() => parseDiscovered(text, 1, 'hosts.sh'), expected);
});

test('a script is run, and its mistakes are named', async (t) => {
  const find = (text: string, timeoutMs?: number) => scriptFinder(script(t, text), 1, timeoutMs)();
  assert.deepEqual(await find('echo a:2; echo b'), [
    { name: 'a', slots: 2 },
    { name: 'b', slots: 1 },
  ]);
  await assert.rejects(find('echo no such cluster >&2; exit 3'), /exited with code 3 \(no such cluster\)/);
  await assert.rejects(find('kill -9 $$'), /was killed by SIGKILL/);
  await assert.rejects(find('exec sleep 60', 200), /did not end within 0\.2 s/);
  await assert.rejects(find('echo what is this?'), /is not HOST or HOST:SLOTS/);
  await assert.rejects(scriptFinder('/nowhere/hosts.sh', 1)(), /\/nowhere\/hosts\.sh was not found/);
});

test('a function is asked, and what it returns is checked', async () => {
  const find = (discover: () => unknown, timeoutMs?: number) =>
    functionFinder(discover as () => Promise<readonly PlanHost[]>, timeoutMs)();
  const hosts = [
    { name: 'a', slots: 2 },
    { name: 'fd00::1', slots: 1 },
  ];
  assert.deepEqual(await find(async () => [...hosts, { name: 'b', slots: 0 }]), hosts);
  for (const [answer, expected] of [
    [undefined, /discover\(\) returned undefined, which is not a list of \{ name, slots \}/],
    [['a:2'], /returned 'a:2', which is not \{ name, slots \}/],
    [[{ name: 'a' }], /returned \{ name: 'a' \}, which is not/],
    [[{ name: 'a', slots: 1.5 }], /slots: 1\.5 \}, which is not/],
    [[{ name: '-oProxyCommand=x', slots: 1 }], /-oProxyCommand=x.*which is not/],
    [[{ name: 'a', slots: 1 }, hosts[0]], /returned a with 1 and with 2 slots/],
  ] as const)
    await assert.rejects(
      find(async () => answer),
      expected,
    );
  await assert.rejects(
    find(() => new Promise(() => undefined), 50),
    /discover\(\) did not answer within 0\.05 s/,
  );
});

test('a list that cannot be had at the start is an error of usage (test_shutdown_on_initial_discovery_failure)', async () => {
  const discovery = new HostDiscovery({
    find: () => Promise.reject(new Error('x failed')),
    say: assert.fail,
  });
  await assert.rejects(
    discovery.start(() => assert.fail()),
    { code: 'ERR_HVD_SETTING', message: /the hosts cannot be found: x failed\./ },
  );
});

test('later the last list stays, and a warning says so once', async () => {
  const answers: (() => Promise<readonly PlanHost[]>)[] = [
    async () => [{ name: 'a', slots: 1 }],
    () => Promise.reject(new Error('x failed')),
    () => Promise.reject(new Error('x failed')),
    async () => [{ name: 'b', slots: 1 }],
  ];
  const events: string[] = [];
  const find: HostFinder = () => (answers.shift() ?? (async () => [{ name: 'c', slots: 1 }]))();
  await new Promise<void>((resolve) => {
    const discovery = new HostDiscovery({ find, everyMs: 1, say: (text) => events.push(text) });
    void discovery.start((hosts) => {
      events.push(hosts.map(({ name }) => name).join());
      if (hosts[0]?.name !== 'c') return;
      discovery.stop();
      resolve();
    });
  });
  assert.deepEqual(events, [
    'a',
    'the hosts cannot be found, so the last list stays: x failed.',
    'the hosts can be found again.',
    'b',
    'c',
  ]);
});

function script(t: TestContext, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-test-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'hosts.sh');
  writeFileSync(path, `#!/bin/sh\n${text}\n`);
  chmodSync(path, 0o755);
  return path;
}
