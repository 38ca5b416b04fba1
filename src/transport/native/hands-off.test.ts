// A writer that neither finishes nor ends: what the survivor gets. Here it is a number in the control block.

import assert from 'node:assert/strict';
import { writeSync } from 'node:fs';
import { describe, test } from 'node:test';
import { batchOf, openGroups, round, submit } from '../../../test/support/transport-world.ts';
import { ControlBlock, controlLayout } from '../../control/control-block.ts';
import { HorovodError } from '../../errors.ts';
import { Sum } from '../../tensor/reduce-op.ts';
import { ShmTransport } from '../shm/shm-transport.ts';
import { loadNative } from './load.ts';

const native = loadNative();
const failure = new HorovodError('ERR_HVD_TIMEOUT', 'rank 1 has not arrived', { rank: 1 });
const elements = 1 << 20;

/** What fence() returns on rank 0, with an allreduce in flight in this memory and rank 1 touching for ever. */
async function fenced(memory: (transport: ShmTransport) => Float32Array): Promise<HorovodError> {
  if (!native.built) throw new Error(native.reason);
  const block = ControlBlock.create(2);
  const limits = { timeoutMs: 60_000, stallAfterMs: 0 };
  const transports = [0, 1].map((rank) => {
    block.attach(rank);
    return new ShmTransport(native.addon, block, { rank, localSize: 2, cma: true, ...limits });
  });
  try {
    const [first] = transports as [ShmTransport, ShmTransport];
    const [group] = await openGroups(transports);
    const x = memory(first);
    const operation = {
      kind: 'allreduce',
      dtype: 'float32',
      op: Sum,
      inputs: [x],
      outputs: [x],
      prescale: 1,
      postscale: 1,
    } as const;
    const ended = group === undefined ? undefined : submit(group, batchOf([round(operation)]));
    const touching = Buffer.from(Uint32Array.of(1).buffer);
    writeSync(block.fd, touching, 0, 4, 2 * controlLayout.pageBytes + controlLayout.rank.touching);
    block.fail({ code: failure.code, message: failure.detail });
    const error = first.fence(failure);
    assert.equal(first.fence(failure), error, 'the second time at once');
    await assert.rejects(ended ?? Promise.resolve(), { code: error.code });
    assert.equal(block.isClosed, true);
    return error;
  } finally {
    for (const transport of transports) transport.close();
    block.close();
  }
}

describe('a rank that may write for ever', { skip: native.built ? false : native.reason }, () => {
  test('costs the survivor its trust in ordinary memory', async () => {
    const error = await fenced(() => new Float32Array(elements));
    assert.equal(error.code, 'ERR_HVD_NATIVE');
    assert.equal(error.rank, 1);
    assert.equal(error.cause, failure);
    assert.match(
      error.message,
      /rank 1 \(pid \d+\) may still write into the memory of this rank.* within 2 s/,
    );
  });

  test('costs it nothing but the blocks of alloc() that were in flight', async () => {
    assert.equal(await fenced((transport) => new Float32Array(transport.alloc(4 * elements))), failure);
  });
});
