// Links against what a network or a broken member may send: what was changed, repeated, cut off or too long ends the link with an error
// that says so, and nothing of it is handed on.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { randomFrom } from '../../../test/support/late-links.ts';
import type { HorovodError } from '../../errors.ts';
import type { Connection } from '../../net/connection.ts';
import { Dial } from '../../net/dial.ts';
import { Listener } from '../../net/listener.ts';
import { SealedFrames } from '../../net/sealed-frames.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { dialLink, Link } from './link.ts';
import type { Message } from './messages.ts';

interface Pair {
  readonly raw: Connection;
  readonly frames: SealedFrames;
  readonly heard: { readonly message: Message; readonly payload: Uint8Array | undefined }[];
  readonly lost: Promise<HorovodError>;
  close(): Promise<void>;
}

/** A link, and the bare connection at its other end. */
async function open(maxPayloadBytes = 1000, silenceMs?: number, isEncrypted = false): Promise<Pair> {
  const identity = { secret: JobSecret.generate(), jobId: 'test' };
  const heard: Pair['heard'] = [];
  let link: Link | undefined;
  let listener: Listener | undefined;
  const lost = new Promise<HorovodError>((onLost) => {
    void Listener.open({
      ...identity,
      purpose: 'data',
      number: 0,
      listenOn: 'loopback',
      onIncoming: (incoming) => {
        link = new Link(incoming.accept(), {
          name: 'worker 3',
          isEncrypted,
          maxPayloadBytes,
          silenceMs,
          onMessage: (message, payload) => heard.push({ message, payload }),
          onLost,
        });
      },
    }).then((opened) => {
      listener = opened;
      connected(opened.addresses);
    });
  });
  let connected: (addresses: readonly string[]) => void = () => {};
  const raw = await new Promise<Connection>((onConnection) => {
    connected = (addresses) => {
      const claim = { purpose: 'data', from: 1, to: 0, channel: 'test' } as const;
      new Dial({ identity, claim, addresses, onConnection });
    };
  });
  raw.socket.on('error', () => {});
  raw.socket.resume();
  const frames = new SealedFrames(raw.keysFor('frames'), 2 ** 24);
  return {
    raw,
    frames,
    heard,
    lost,
    async close() {
      link?.close();
      raw.socket.destroy();
      await listener?.close();
    },
  };
}

const claim = { kind: 'forget', job: '1.1' };
const batch = { kind: 'batch', id: { epoch: 0, group: 0, ordinal: 0 }, era: 1, round: null };

describe('links', { timeout: 30_000 }, () => {
  test('hand on whole messages and their payloads, in whatever pieces they come', async () => {
    const pair = await open();
    const bytes = Buffer.concat([
      pair.frames.seal(JSON.stringify([5, batch])),
      Buffer.from('bytes'),
      pair.frames.seal(JSON.stringify([0, claim])),
    ]);
    for (const byte of bytes) pair.raw.socket.write(Buffer.from([byte]));
    while (pair.heard.length < 2) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(Buffer.from(pair.heard[0]?.payload ?? []).toString(), 'bytes');
    assert.deepEqual(pair.heard[1]?.message, claim);
    await pair.close();
  });

  test('that were dialed read payloads of any size into the memory that they are given', async (context) => {
    const identity = { secret: JobSecret.generate(), jobId: 'test' };
    let onIncoming: (connection: Connection) => void = () => {};
    const incoming = new Promise<Connection>((resolve) => {
      onIncoming = resolve;
    });
    const listener = await Listener.open({
      ...identity,
      purpose: 'data',
      number: 0,
      listenOn: 'loopback',
      onIncoming: (each) => onIncoming(each.accept()),
    });
    context.after(() => listener.close());
    const heard: (Uint8Array | undefined)[] = [];
    const memory = new ArrayBuffer(2 ** 20);
    const given: number[] = [];
    const link = await dialLink(
      {
        identity,
        to: 0,
        channel: 'test',
        from: 1,
        addresses: listener.addresses,
        timeoutMs: 10_000,
      },
      {
        name: 'worker 3',
        isEncrypted: false,
        maxPayloadBytes: 2 ** 20,
        allocate: (bytes) => {
          given.push(bytes);
          return memory;
        },
        // A copy, since the memory is used again. A Buffer's slice() would be none.
        onMessage: (_, payload) => heard.push(payload && Uint8Array.from(payload)),
        onLost: (error) => heard.push(Buffer.from(error.message)),
      },
    );
    context.after(() => link.close());
    const { socket, keysFor } = await incoming;
    context.after(() => socket.destroy());
    socket.on('error', () => {});
    socket.resume();
    const frames = new SealedFrames(keysFor('frames'), 2 ** 24);
    const random = randomFrom(5);
    const sizes = [1, 0, 65_536, 3, 2 ** 20, 65_535, 0, 0, 300_001, 12, 100_000];
    const payloads = sizes.map((size) => Buffer.alloc(size, Math.floor(random() * 256)));
    // The first byte comes alone: the listener's side may speak when it has heard something.
    link.send({ kind: 'beat' });
    await once(socket, 'data');
    const bytes = Buffer.concat(
      payloads.flatMap((payload) => [frames.seal(JSON.stringify([payload.length, batch])), payload]),
    );
    for (let at = 0; at < bytes.length; ) {
      const end = at + 1 + Math.floor(random() * (random() < 0.5 ? 100 : 200_000));
      const piece = bytes.subarray(at, end);
      await new Promise((resolve) => socket.write(piece, resolve));
      at = end;
    }
    while (heard.length < sizes.length) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(
      given,
      sizes.filter((size) => size > 0),
    );
    for (const [place, payload] of payloads.entries())
      assert.ok(payload.equals(heard[place] ?? Buffer.alloc(0)), `payload ${place}`);
  });

  for (const [what, code, text, send] of [
    [
      'a message that was changed',
      'ERR_HVD_TAMPERED',
      /wrong authentication code/,
      (frames) => {
        const frame = frames.seal(JSON.stringify([0, claim]));
        frame.write('F', frame.indexOf('forget'));
        return [frame];
      },
    ],
    [
      'a message that comes a second time',
      'ERR_HVD_TAMPERED',
      /frame 0 for a second time/,
      (frames) => {
        const frame = frames.seal(JSON.stringify([0, { kind: 'beat' }]));
        return [frame, frame];
      },
    ],
    [
      'a message that was left out',
      'ERR_HVD_TAMPERED',
      /frame 1 where frame 0 was due/,
      (frames) => {
        frames.seal(JSON.stringify([0, claim]));
        return [frames.seal(JSON.stringify([0, claim]))];
      },
    ],
    [
      'a frame that is too long',
      'ERR_HVD_DATA_SERVICE',
      /a frame of \d+ bytes/,
      (frames) => [frames.seal(JSON.stringify([0, { ...claim, job: 'x'.repeat(5 << 20) }]))],
    ],
    [
      'a batch that is larger than the room for it',
      'ERR_HVD_DATA_SERVICE',
      /a batch of 1001 bytes, and there is room for 1000/,
      (frames) => [frames.seal(JSON.stringify([1001, batch]))],
    ],
    [
      'a message that is none',
      'ERR_HVD_DATA_SERVICE',
      /not one of this version/,
      (frames) => [frames.seal(JSON.stringify([0, { kind: 'forget', job: 7 }]))],
    ],
    ['what is no JSON', 'ERR_HVD_DATA_SERVICE', /no JSON/, (frames) => [frames.seal('{')]],
  ] satisfies [string, string, RegExp, (frames: SealedFrames) => Buffer[]][]) {
    test(`${what} ends the link`, async () => {
      const pair = await open();
      for (const bytes of send(pair.frames)) pair.raw.socket.write(bytes);
      const error = await pair.lost;
      assert.equal(error.code, code);
      assert.match(error.message, text);
      assert.match(error.message, /worker 3 at 127\.0\.0\.1/);
      assert.deepEqual(pair.heard, []);
      await pair.close();
    });
  }

  test('an encrypted batch that was changed ends the link', async () => {
    const pair = await open(1000, undefined, true);
    pair.raw.socket.write(pair.frames.seal(JSON.stringify([40, batch])));
    pair.raw.socket.write(Buffer.alloc(40));
    assert.equal((await pair.lost).code, 'ERR_HVD_TAMPERED');
    await pair.close();
  });

  test('silence ends the link, and so does its end', async () => {
    const silent = await open(1000, 100);
    assert.match((await silent.lost).message, /nothing has come from worker 3 .* for 0\.1 s/);
    await silent.close();
    const ended = await open();
    ended.raw.socket.end();
    await once(ended.raw.socket, 'close');
    assert.match((await ended.lost).message, /has closed its connection, or is gone/);
    await ended.close();
  });
});
