// PMI over real sockets, against a process manager that does what MPICH's and Slurm's were seen to do, or does it wrong.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createConnection, createServer, type Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { patiently } from '../../../test/support/patiently.ts';
import { HorovodError } from '../../errors.ts';
import { exchangeOverPmi } from './pmi.ts';

interface Manager {
  connect(): Promise<Socket>;
  /** Commands in the order in which they came, without their operands. */
  readonly heard: string[];
  readonly values: Map<string, string>;
}

type Answers = Record<string, (operands: string) => string | undefined>;

async function startManager(t: TestContext, size: number, strange: Answers = {}): Promise<Manager> {
  const heard: string[] = [];
  const values = new Map<string, string>();
  const atBarrier: Socket[] = [];
  const field = (operands: string, name: string) => new RegExp(`${name}=(\\S+)`).exec(operands)?.[1] ?? '';
  const usual: Answers = {
    init: () => 'cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0',
    get_maxes: () => 'cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=64',
    get_my_kvsname: () => 'cmd=my_kvsname kvsname=kvs_1',
    put: (operands) => {
      const value = field(operands, 'value');
      if (value.length > 64) return 'cmd=put_result rc=-1 msg=value_too_long';
      values.set(field(operands, 'key'), value);
      return 'cmd=put_result rc=0 msg=success';
    },
    get: (operands) => {
      const value = values.get(field(operands, 'key'));
      return value === undefined ? 'cmd=get_result rc=-1 msg=unknown' : `cmd=get_result rc=0 value=${value}`;
    },
    finalize: () => 'cmd=finalize_ack',
  };
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => undefined);
    let text = '';
    socket.on('data', (piece) => {
      text += String(piece);
      for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
        const [, command = '', operands = ''] = /^cmd=(\S+) ?(.*)$/.exec(text.slice(0, end)) ?? [];
        text = text.slice(end + 1);
        heard.push(command);
        const answer = strange[command] ?? usual[command];
        if (answer === undefined && command === 'barrier_in') {
          atBarrier.push(socket);
          if (atBarrier.length === size) for (const each of atBarrier) each.write('cmd=barrier_out rc=0\n');
          continue;
        }
        const line = answer?.(operands);
        if (line === undefined) socket.end();
        // In two pieces, as a socket may have it.
        else for (const part of [line.slice(0, 7), `${line.slice(7)}\n`]) socket.write(part);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as { port: number };
  const connect = async (): Promise<Socket> => {
    const socket = createConnection({ host: '127.0.0.1', port });
    t.after(() => socket.destroy());
    await once(socket, 'connect');
    return socket;
  };
  return { connect, heard, values };
}

const wait = { timeoutMs: 20_000 };

async function failure(promise: Promise<unknown>): Promise<HorovodError> {
  const error: unknown = await promise.then(
    () => assert.fail('it did not fail'),
    (reason) => reason,
  );
  assert.ok(HorovodError.is(error), String(error));
  return error;
}

describe('PMI', () => {
  test('carries a text of rank 0 to all ranks, longer than one value and with any letters', async (t) => {
    const manager = await startManager(t, 3);
    const text = `${JSON.stringify({ a: 'b = c\n€' })}${'0123456789'.repeat(40)}`;
    const ranks = [0, 1, 2].map(async (rank) => {
      const options = { rank, text: rank === 0 ? text : undefined, finalizes: true };
      return exchangeOverPmi(await manager.connect(), options, wait);
    });
    assert.deepEqual(await Promise.all(ranks), [text, text, text]);
    assert.ok(manager.values.size > 1);
    assert.equal(manager.heard.filter((command) => command === 'finalize').length, 3);
  });

  test('leaves the end of the conversation to MPI where MPI is going to talk', async (t) => {
    const manager = await startManager(t, 1);
    await exchangeOverPmi(await manager.connect(), { rank: 0, text: 'x', finalizes: false }, wait);
    assert.ok(!manager.heard.includes('finalize'));
  });

  test('a rank that does not come is told apart from a manager that does not answer', async (t) => {
    const options = { rank: 0, text: 'x', finalizes: true };
    await patiently(async (timeoutMs) => {
      const manager = await startManager(t, 2);
      const early = await failure(exchangeOverPmi(await manager.connect(), options, { timeoutMs }));
      assert.equal(early.code, 'ERR_HVD_TIMEOUT');
      assert.match(early.message, /rank 0 waited too long .*not all ranks have come/);
    });
    const mute = createServer(() => undefined);
    await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
    t.after(() => mute.close());
    const socket = createConnection({ host: '127.0.0.1', port: (mute.address() as { port: number }).port });
    t.after(() => socket.destroy());
    const late = await failure(exchangeOverPmi(socket, options, { timeoutMs: 50 }));
    assert.match(late.message, /it does not answer/);
  });

  test('an abort signal ends the wait', async (t) => {
    const manager = await startManager(t, 2);
    const controller = new AbortController();
    const waiting = failure(
      exchangeOverPmi(
        await manager.connect(),
        { rank: 0, text: 'x', finalizes: true },
        { signal: controller.signal },
      ),
    );
    controller.abort();
    assert.equal((await waiting).code, 'ERR_HVD_ABORTED');
  });

  for (const [what, strange, expected] of [
    [
      'closes the connection',
      { get_my_kvsname: () => undefined },
      /closed the connection at "get_my_kvsname"/,
    ],
    ['refuses', { put: () => 'cmd=put_result rc=-1 msg=full' }, /answered "put" with "cmd=put_result rc=-1/],
    ['speaks of something else', { init: () => 'cmd=quit' }, /answered "init" with "cmd=quit"/],
  ] as const) {
    test(`a manager that ${what} is quoted, and the way round it named`, async (t) => {
      const manager = await startManager(t, 1, strange);
      const options = { rank: 0, text: 'x', finalizes: true };
      const error = await failure(exchangeOverPmi(await manager.connect(), options, wait));
      assert.equal(error.code, 'ERR_HVD_RENDEZVOUS');
      assert.match(error.message, expected);
      assert.match(error.message, /Set HOROVOD_RENDEZVOUS=host:port/);
    });
  }
});
