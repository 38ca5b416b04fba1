// The watches of two hosts, with somebody between them who passes the handshake on and then changes what follows.

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { altered, type Change, startDecoy } from '../../../test/support/decoy.ts';
import { ControlBlock, type FailureRecord } from '../../control/control-block.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import type { WatchedHost } from './host-watch.ts';
import { Watcher } from './watcher.ts';

const hosts: readonly [WatchedHost, WatchedHost] = [
  { rank: 0, hostname: 'host1', ranks: [0] },
  { rank: 1, hostname: 'host2', ranks: [1] },
];
const common = {
  secret: JobSecret.generate(),
  jobId: 'job',
  channel: 'watch',
  networkInterfaces: ['lo'],
  peerTimeoutMs: 10_000,
};

/** The failures that both hosts come to know of. The second one dials, through the decoy. */
async function failuresOf(t: TestContext, change: (frame: Buffer) => Change): Promise<FailureRecord[]> {
  const [first, second] = await Promise.all(
    hosts.map(async (host, place) => {
      const block = ControlBlock.create(2);
      block.attach(host.rank);
      const watcher = await Watcher.open({
        ...common,
        controlBlockPath: block.path,
        rank: host.rank,
        localRanks: host.ranks,
        hostname: host.hostname,
        peers: [hosts[1 - place] as WatchedHost],
      });
      t.after(async () => {
        watcher.end();
        await watcher.over;
        block.close();
      });
      return { block, watcher };
    }),
  );
  assert.ok(first !== undefined && second !== undefined);
  const decoy = await startDecoy(t, first.watcher.candidates[0] as string, {
    extraBytes: 1,
    change: (direction, frame, place) => (direction === 'to listener' && place > 0 ? change(frame) : [frame]),
  });
  const wait = { timeoutMs: 20_000 };
  await Promise.all([
    first.watcher.connect([second.watcher.candidates], wait),
    second.watcher.connect([[decoy]], wait),
  ]);
  return Promise.all([failureOn(first.block), failureOn(second.block)]);
}

async function failureOn(block: ControlBlock): Promise<FailureRecord> {
  for (const deadline = performance.now() + 20_000; performance.now() < deadline; ) {
    const failure = block.failure();
    if (failure !== undefined) return failure;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return assert.fail('no failure within 20 s');
}

for (const [what, change, text] of [
  ['altered', (frame: Buffer) => [altered(frame)], /sent frame 1 with a wrong authentication code/],
  ['repeated', (frame: Buffer) => [frame, frame], /sent frame 1 for a second time/],
] as const) {
  test(`a message of a watch that was ${what} fails the job on the host that got it`, async (t) => {
    const [failure] = (await failuresOf(t, change)) as [FailureRecord, FailureRecord];
    assert.equal(failure.code, 'ERR_HVD_TAMPERED');
    assert.equal(failure.rank, 1);
    assert.match(failure.message, text);
    assert.match(failure.message, /^host2 \(rank 1\) at 127\.0\.0\.1:\d+ sent .*tampering/);
  });
}

test('a message of a watch that was cut off is a lost host, and no goodbye', async (t) => {
  const [failure] = (await failuresOf(t, () => 'cut')) as [FailureRecord, FailureRecord];
  assert.equal(failure.code, 'ERR_HVD_PEER_LOST');
  assert.match(failure.message, /host2 \(rank 1\) ended without a goodbye \(in the middle of a message\)/);
});
