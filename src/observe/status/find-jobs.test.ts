import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { ControlBlock } from '../../control/control-block.ts';
import { findBlocks } from './find-jobs.ts';

const mark = '0123456789abcdef';

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'horovod-find-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** /proc with one process that has these files open. */
function procWith(t: TestContext, pid: number, targets: readonly string[]): string {
  const proc = folder(t);
  mkdirSync(join(proc, String(pid), 'fd'), { recursive: true });
  for (const [fd, target] of targets.entries())
    symlinkSync(target, join(proc, String(pid), 'fd', String(fd)));
  return proc;
}

describe('control blocks', () => {
  test('are found by what processes have open', (t) => {
    const open = [
      '/dev/null',
      `/dev/shm/horovod-control-${mark} (deleted)`,
      'socket:[5]',
      '/dev/shm/horovod-control-x',
    ];
    const proc = procWith(t, 42, open);
    const { blocks } = findBlocks('/nowhere', proc);
    assert.deepEqual(blocks, [{ path: join(proc, '42/fd/1'), mark, isForeign: false }]);
  });

  test('of a container are known as such', (t) => {
    const proc = procWith(t, 42, [`/dev/shm/horovod-control-${mark} (deleted)`]);
    for (const [folder, namespace] of [
      ['42', 'pid:[7]'],
      ['self', 'pid:[8]'],
    ] as const) {
      mkdirSync(join(proc, folder, 'ns'), { recursive: true });
      symlinkSync(namespace, join(proc, folder, 'ns/pid'));
    }
    assert.equal(findBlocks('/nowhere', proc).blocks[0]?.isForeign, true);
  });

  test('are found once, however many have them open', (t) => {
    const target = `/dev/shm/horovod-control-${mark} (deleted)`;
    assert.equal(findBlocks('/nowhere', procWith(t, 42, [target, target])).blocks.length, 1);
  });

  test('of this very process are found', () => {
    const block = ControlBlock.create(1);
    try {
      const found = findBlocks('/nowhere').blocks.map(({ path }) => path);
      assert.ok(found.includes(block.path), `${block.path} among ${found.join(', ')}`);
    } finally {
      block.close();
    }
  });

  test('have names where there is no /proc', (t) => {
    const directory = folder(t);
    writeFileSync(join(directory, `horovod-control-${mark}`), '');
    writeFileSync(join(directory, 'horovod-segment-0123456789abcdef'), '');
    assert.deepEqual(findBlocks(directory, join(directory, 'no-proc')).blocks, [
      { path: join(directory, `horovod-control-${mark}`), mark, isForeign: false },
    ]);
  });

  const skip = process.getuid?.() === 0 ? 'root may look into everything' : false;
  test('of other users stay hidden, and processes that look like a job are reported', { skip }, (t) => {
    const proc = procWith(t, 42, []);
    const fds = join(proc, '42/fd');
    writeFileSync(join(proc, '42/cmdline'), '/usr/bin/node\0/usr/bin/horovodrun\0-np\x002\0');
    chmodSync(fds, 0);
    try {
      const hidden = [{ pid: 42, uid: process.getuid?.() }];
      assert.deepEqual(findBlocks('/nowhere', proc), { blocks: [], hidden });
    } finally {
      chmodSync(fds, 0o700);
    }
  });

  test('of a process that ends meanwhile are no error', (t) => {
    const proc = folder(t);
    mkdirSync(join(proc, '42'));
    assert.deepEqual(findBlocks('/nowhere', proc), { blocks: [], hidden: [] });
  });
});
