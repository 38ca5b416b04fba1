import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { type Box, canUseBox, startBox } from '../support/box.ts';

const skip = canUseBox() ?? false;

describe('hosts in a box', { skip }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 2 });
  });
  after(async () => {
    await box.close();
    assert.equal(existsSync(box.shared), false);
  });

  test('a command runs on the host it is given, with its environment', async () => {
    const { exitCode, stdout } = await box.exec('host2', ['bash', '-c', 'hostname; echo "$WORD"; exit 3'], {
      env: { WORD: 'hello' },
    });
    assert.deepEqual([exitCode, stdout], [3, 'host2\nhello\n']);
  });

  test('hosts reach each other by ssh', async () => {
    const { stdout, stderr } = await box.exec('host1', ['ssh', 'host2', 'hostname']);
    assert.deepEqual([stdout, stderr], ['host2\n', '']);
  });

  test('what runs on a host and what is in its shared memory is seen', async () => {
    assert.deepEqual([box.processesOn('host1'), box.shmOf('host1')], [[], []]);
    await box.exec('host1', ['touch', '/dev/shm/left']);
    const running = box.start('host1', ['bash', '-c', 'echo up; sleep 1000; true']);
    await running.waitForOutput(/up/);
    assert.match(
      box
        .processesOn('host1')
        .map(({ command }) => command)
        .join('; '),
      /sleep 1000/,
    );
    assert.deepEqual(box.shmOf('host1'), ['left']);
    assert.deepEqual([box.processesOn('host2'), box.shmOf('host2')], [[], []]);
    await assert.rejects(box.assertNothingLeft(50), /host1: process \d+: sleep 1000/);
    for (const { pid } of box.processesOn('host1')) process.kill(pid, 'SIGKILL');
    await running.ended;
    await box.exec('host1', ['rm', '/dev/shm/left']);
    await box.assertNothingLeft();
  });

  test('a command that takes too long is killed, its host keeps nothing of it', async () => {
    await assert.rejects(
      box.exec('host1', ['sleep', '1000'], { timeoutMs: 50 }),
      /still running after 0\.05 s/,
    );
    await box.assertNothingLeft();
  });

  test('a crashed host is down with all it ran until it boots', async () => {
    const running = box.start('host2', ['bash', '-c', 'echo up; sleep 1000; true']);
    await running.waitForOutput(/up/);
    await box.crash('host2');
    assert.notEqual((await running.endedWithin(5_000)).exitCode, 0);
    await box.repair();
    assert.equal((await box.exec('host1', ['ssh', 'host2', 'hostname'])).stdout, 'host2\n');
  });

  test('a host can lose a file of its own', async () => {
    await box.without('host2', '/usr/bin/env');
    assert.notEqual((await box.exec('host2', ['env'])).exitCode, 0);
    assert.equal((await box.exec('host1', ['env', 'true'])).exitCode, 0);
  });
});
