// A group of the addon: the numbers of its batches.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { batchOf, round, submit } from '../../../test/support/transport-world.ts';
import { ControlBlock } from '../../control/control-block.ts';
import { createMemoryFile } from '../../control/memory-file.ts';
import { AddonGroup } from './addon-group.ts';
import { loadNative } from './load.ts';

const native = loadNative();

test('promises settle when more than 2^32 batches have run', {
  skip: native.built ? false : native.reason,
}, async () => {
  if (!native.built) return;
  const { addon } = native;
  const block = ControlBlock.create(2);
  const segment = createMemoryFile(addon.bytesPerMember * 2, { label: 'the segment of a test' });
  const controls = [0, 1].map((rank) => {
    block.attach(rank);
    return addon.openControl(block.fd, rank, 2);
  });
  const groups = controls.map((control, index) => {
    const spec = { id: 0, members: [0, 1], index, exchange: async () => [], timeoutMs: 1000 };
    return new AddonGroup({
      block,
      rank: index,
      spec,
      tryUpToBytes: -1, // always on the group's thread
      firstBatchId: 2 ** 32 - 2,
      fence: (failure) => failure,
      open: (report, mailbox) =>
        addon.openGroup({
          control,
          arena: addon.openArena(),
          ranks: Int32Array.of(0, 1),
          index,
          segmentFd: segment.fd,
          spins: 0,
          timeoutMs: 30_000,
          stallAfterMs: 0,
          handsOffMs: 1000,
          report,
          mailbox,
        }),
    });
  });
  try {
    for (let n = 0; n < 5; n++) {
      const batches = groups.map(() => batchOf([round({ kind: 'barrier' }, n + 1)]));
      const outcomes = await Promise.all(
        groups.map((group, i) => submit(group, batches[i] as (typeof batches)[0])),
      );
      assert.deepEqual(outcomes, ['done', 'done']);
    }
    // The blocking wait for a submitted batch finds it as well.
    const [first, second] = groups as [AddonGroup, AddonGroup];
    const waited = batchOf([round({ kind: 'barrier' }, 9)]);
    assert.equal(
      first.submit(waited, () => assert.fail('it was waited for')),
      undefined,
    );
    const other = submit(second, batchOf([round({ kind: 'barrier' }, 9)]));
    assert.equal(first.waitSync(waited), 'done');
    assert.equal(await other, 'done');
  } finally {
    for (const group of groups) group.close();
    for (const [rank, control] of controls.entries()) {
      block.leave(rank);
      addon.closeControl(control);
    }
    segment.close();
    block.close();
  }
});
