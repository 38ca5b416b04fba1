import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encodeFrame, FrameReader, ProtocolError, parseObject } from './frames.ts';

test('frames survive any cutting of the stream', () => {
  const body = fc.uint8Array({ minLength: 1, maxLength: 300 });
  fc.assert(
    fc.property(
      fc.array(body, { maxLength: 8 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 90 })),
      (bodies, cuts) => {
        const bytes = Buffer.concat(bodies.map((each) => encodeFrame(each, 300)));
        const reader = new FrameReader(300);
        const received: Buffer[] = [];
        for (let at = 0; at < bytes.length; ) {
          const end = Math.min(bytes.length, at + (cuts.next().value as number));
          received.push(...reader.push(bytes.subarray(at, end)));
          at = end;
        }
        assert.deepEqual(
          received,
          bodies.map((each) => Buffer.from(each)),
        );
      },
    ),
  );
});

test('a text is a body too', () => {
  const [body] = new FrameReader(100).push(encodeFrame('häll😀', 100));
  assert.equal(String(body), 'häll😀');
});

test('a length beyond the limit is rejected before any byte of the frame is kept, and at the sender', () => {
  for (const length of [0, 101, 2 ** 32 - 1]) {
    const head = Buffer.alloc(4);
    head.writeUInt32BE(length);
    assert.throws(() => new FrameReader(100).push(head), ProtocolError);
  }
  assert.throws(() => encodeFrame('x'.repeat(101), 100), /101 bytes is longer than 100/);
});

test('a large frame in small pieces costs no more than its length', () => {
  const body = Buffer.alloc(4 * 2 ** 20, 'x');
  const bytes = encodeFrame(body, body.length);
  const reader = new FrameReader(body.length);
  const received: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 1024)
    received.push(...reader.push(bytes.subarray(at, at + 1024)));
  assert.deepEqual(received, [body]);
});

test('random bytes are frames or an error, nothing else', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 10 }), (pieces) => {
      const reader = new FrameReader(64);
      try {
        for (const piece of pieces) for (const body of reader.push(Buffer.from(piece))) parseObject(body);
      } catch (error) {
        assert.ok(error instanceof ProtocolError, String(error));
      }
    }),
    { numRuns: 2000 },
  );
});
