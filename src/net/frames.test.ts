// Frames: whatever comes, and however it is cut.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encodeFrame, FrameReader, longestFrameBytes, parseRequest, parseResponse } from './frames.ts';

test('frames survive any cutting of the stream', () => {
  const message = fc.record(
    {
      op: fc.constant('set' as const),
      id: fc.nat(),
      key: fc.string({ minLength: 1, maxLength: 50 }),
      value: fc.string({ unit: 'grapheme', maxLength: 300 }),
    },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(
      fc.array(message, { maxLength: 8 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 90 })),
      (messages, cuts) => {
        const bytes = Buffer.concat(messages.map((one) => encodeFrame(one)));
        const reader = new FrameReader();
        const received: unknown[] = [];
        for (let at = 0; at < bytes.length; ) {
          const end = Math.min(bytes.length, at + (cuts.next().value as number));
          for (const text of reader.push(bytes.subarray(at, end))) received.push(parseRequest(text));
          at = end;
        }
        assert.deepEqual(received, messages);
      },
    ),
  );
});

test('no text makes the parsers do anything but accept or refuse', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.json(),
        fc.anything().map((any) => JSON.stringify(any) ?? ''),
      ),
      (text) => {
        for (const parse of [parseRequest, parseResponse]) {
          try {
            assert.ok(Number.isSafeInteger(parse(text).id));
          } catch (error) {
            assert.equal((error as Error).constructor.name, 'ProtocolError');
          }
        }
      },
    ),
  );
});

test('a length beyond the limit is refused before any byte of the frame is kept', () => {
  for (const length of [0, longestFrameBytes + 1, 2 ** 32 - 1]) {
    const head = Buffer.alloc(4);
    head.writeUInt32BE(length);
    assert.throws(() => new FrameReader().push(head), /a frame of/);
  }
  const value = 'x'.repeat(longestFrameBytes);
  assert.throws(() => encodeFrame({ op: 'set', id: 0, key: 'k', value }), /longer than/);
});
