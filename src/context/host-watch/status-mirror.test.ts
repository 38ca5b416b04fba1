import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { statusOf } from '../../../test/support/status-examples.ts';
import { ControlBlock, controlLayout } from '../../control/control-block.ts';
import { ProtocolError } from '../../net/frames.ts';
import { decodeHostUse, encodeHostUse } from '../../observe/hosts/host-use.ts';
import { decodeRankStatus, encodeRankStatus } from '../../observe/status/rank-status.ts';
import { HostMirror } from './host-mirror.ts';
import { encodeMessage, parseMessage, type WatchMessage } from './messages.ts';
import { StatusMirror } from './status-mirror.ts';

type StatusMessage = Extract<WatchMessage, { type: 'status' }>;
type HostMessage = Extract<WatchMessage, { type: 'host' }>;

function hosts(t: TestContext) {
  const [here, there] = [ControlBlock.create(2), ControlBlock.create(2)];
  t.after(() => {
    here.close();
    there.close();
  });
  const said: StatusMessage[] = [];
  const mirror = new StatusMirror(here, [0], (message) => said.push(message));
  const other = new StatusMirror(there, [1], () => undefined);
  const write = (sequence: number, step: number, updatedAt: number) =>
    here.writeStatus(0, sequence, encodeRankStatus(statusOf({ step, updatedAt }), controlLayout.statusBytes));
  const read = () => decodeRankStatus(there.readStatus(0)?.text ?? '');
  return { here, mirror, other, said, write, read };
}

/** Over the wire and back. */
function sent(message: StatusMessage): StatusMessage {
  return parseMessage(Buffer.from(encodeMessage(message))) as StatusMessage;
}

describe('status pages between hosts', () => {
  test('are told when they have changed, and only then', (t) => {
    const { mirror, other, said, write, read } = hosts(t);
    mirror.tell();
    assert.equal(said.length, 0, 'nothing has been written yet');
    write(1, 5, Date.now());
    mirror.tell();
    mirror.tell();
    assert.equal(said.length, 1);
    other.hear(sent(said[0] as StatusMessage));
    assert.deepEqual([read()?.step, read()?.host], [5, 'host1']);
    write(2, 6, Date.now());
    mirror.tell();
    other.hear(sent(said[1] as StatusMessage));
    assert.equal(read()?.step, 6);
  });

  test('have the time of the host they are read on, whatever the clock of the other says', (t) => {
    const { other, read } = hosts(t);
    const status = statusOf({ updatedAt: 5000 });
    const last = { ...(status.last as NonNullable<typeof status.last>), atMs: 4000 };
    const before = Date.now();
    other.hear(sent({ type: 'status', rank: 0, ageMs: 300, status: { ...status, last } }));
    const updatedAt = read()?.updatedAt ?? 0;
    assert.ok(updatedAt >= before - 300 && updatedAt <= Date.now() - 300, String(updatedAt));
    assert.equal(updatedAt - (read()?.last?.atMs ?? 0), 1000);
  });

  test('that are garbage are not told, and nonsense is no message', (t) => {
    const { here, mirror, said } = hosts(t);
    here.writeStatus(0, 1, Buffer.from('{"rank":'));
    mirror.tell();
    assert.equal(said.length, 0);
    const status = statusOf({});
    for (const wrong of [
      { type: 'status', rank: 0, ageMs: 1 },
      { type: 'status', rank: -1, ageMs: 1, status },
      { type: 'status', rank: 0, ageMs: 'old', status },
      { type: 'status', rank: 0, ageMs: 1, status: { ...status, step: 'x' } },
    ]) {
      assert.throws(() => parseMessage(Buffer.from(JSON.stringify(wrong))), ProtocolError);
    }
  });
});

describe('how busy hosts are, between hosts', () => {
  test('is told when it has changed, in the time of the host it is read on; nonsense is no message', (t) => {
    const { here } = hosts(t);
    const there = ControlBlock.create(2);
    const said: HostMessage[] = [];
    const onLowMemory = () => assert.fail();
    const mirrors = [
      new HostMirror(here, {
        hostname: 'a',
        localRanks: [0],
        say: (message) => said.push(message),
        onLowMemory,
      }),
      new HostMirror(there, { hostname: 'b', localRanks: [1], say: () => assert.fail(), onLowMemory }),
    ] as const;
    t.after(() => {
      for (const mirror of mirrors) mirror.close();
      there.close();
    });
    const use = { host: 'a', takenAt: Date.now() - 5000, processors: { cores: 2 }, gpus: [] };
    mirrors[0].tell();
    here.writeHost(0, 1, encodeHostUse(use, controlLayout.statusBytes));
    mirrors[0].tell();
    mirrors[0].tell();
    assert.equal(said.length, 1);
    const message = said[0] as HostMessage;
    mirrors[1].hear(parseMessage(Buffer.from(encodeMessage({ ...message, ageMs: 300 }))) as HostMessage);
    const heard = decodeHostUse(there.readHost(0)?.text ?? '');
    assert.deepEqual({ ...heard, takenAt: use.takenAt }, use);
    assert.ok(Date.now() - (heard?.takenAt ?? 0) < 4000);
    for (const wrong of [{ rank: -1 }, { use: { host: 7 } }, { ageMs: -1 }, { ageMs: 'old' }]) {
      assert.throws(() => parseMessage(Buffer.from(JSON.stringify({ ...message, ...wrong }))), ProtocolError);
    }
  });
});
