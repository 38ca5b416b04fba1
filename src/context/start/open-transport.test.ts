// Which addresses a rank tries for another one. At loopback of this machine somebody else may listen in the place of a rank
// that is elsewhere.

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { errorOf } from '../../../test/support/error-of.ts';
import { createLog } from '../../console/log.ts';
import { ControlBlock } from '../../control/control-block.ts';
import type { HorovodError } from '../../errors.ts';
import { MemoryStore } from '../../rendezvous/store/memory-store.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { HostMap } from './hosts.ts';
import { type OpenedTransport, openTransport } from './open-transport.ts';

// Nobody listens there, and so nobody answers.
const told = '127.0.0.1:1';
const timeoutMs = 100;

/**
 * Opens the transport of the last rank of `layout` ('ab': two ranks, on hosts a and b). Rank 0, on host a, has told only a loopback
 * address.
 */
function open(t: TestContext, layout: string, isSameMachine: boolean): Promise<OpenedTransport> {
  const members = [...layout].map((_, rank) => rank);
  const rank = members.length - 1;
  const block = ControlBlock.create(members.length);
  t.after(() => block.close());
  const settings = readSettings({});
  return openTransport({
    settings,
    job: {
      store: new MemoryStore(),
      rank,
      size: members.length,
      secret: JobSecret.generate(),
      jobId: 'a job',
      launcher: 'horovodrun',
      close() {},
    },
    block,
    hosts: new HostMap([...layout].map((letter) => ({ hostname: letter, machine: letter }))),
    loopbacks: [...layout].map((letter) => (isSameMachine ? 'one machine' : `machine ${letter}`)),
    members,
    place: rank,
    decision: { transport: 'portable' },
    generation: '1',
    log: createLog(settings, rank),
    wait: { timeoutMs },
    exchange: async (own) => members.map((each) => (each === 0 ? addressesOf(told) : own)),
  });
}

function addressesOf(address: string): string {
  return JSON.stringify({ mesh: [address], watch: [address] });
}

for (const [isSameMachine, expected] of [
  [false, /rank 0 on a: it has told no address\./],
  [true, /rank 0 on a: tried 127\.0\.0\.1:1 \(/],
] as const) {
  const title = isSameMachine
    ? 'is tried for a rank of this machine'
    : 'is not tried for a rank of another machine';
  const check = ({ code, message }: HorovodError) => {
    assert.equal(code, 'ERR_HVD_TIMEOUT');
    assert.match(message, expected);
  };

  test(`loopback ${title}, by the watch of a host`, async (t) => {
    check(await errorOf(open(t, 'ab', isSameMachine)));
  });

  test(`loopback ${title}, by the transport`, async (t) => {
    const { transport, close } = await open(t, 'abb', isSameMachine);
    t.after(() => {
      transport.close();
      close();
    });
    const exchange = async (text: string) => [text, text];
    check(await errorOf(transport.openGroup({ id: 0, members: [0, 2], index: 1, exchange, timeoutMs })));
  });
}
