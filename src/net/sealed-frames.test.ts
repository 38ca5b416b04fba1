// Frames as one side sealed them and as somebody between the two changed them.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { KeyPair } from './connection-keys.ts';
import { ProtocolError } from './frames.ts';
import { SealedFrames, TamperedFrame, tamperedError } from './sealed-frames.ts';

const maxBytes = 300;

/** The two sides of a connection. */
function pair(limit = maxBytes): [SealedFrames, SealedFrames] {
  const [send, receive] = [randomBytes(32), randomBytes(32)];
  const keys: KeyPair = { send, receive };
  return [new SealedFrames(keys, limit), new SealedFrames({ send: receive, receive: send }, limit)];
}

function textsOf(bodies: readonly Buffer[]): string[] {
  return bodies.map(String);
}

test('contents arrive as they were sent, whatever the pieces, in both directions', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: maxBytes }), { maxLength: 6 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 90 })),
      (contents, cuts) => {
        for (const [from, to] of [pair(), pair().reverse() as [SealedFrames, SealedFrames]]) {
          const bytes = Buffer.concat(contents.map((content) => from.seal(content)));
          const received: Buffer[] = [];
          for (let at = 0; at < bytes.length; ) {
            const end = Math.min(bytes.length, at + (cuts.next().value as number));
            received.push(...to.open(bytes.subarray(at, end)));
            at = end;
          }
          assert.deepEqual(
            received,
            contents.map((content) => Buffer.from(content)),
          );
          assert.ok(to.isWhole);
        }
      },
    ),
  );
});

test('a text that is too long is rejected at the sender, and the next one still arrives', () => {
  const [from, to] = pair();
  assert.throws(() => from.seal('x'.repeat(maxBytes + 1)), /301 bytes is longer than 300/);
  assert.deepEqual(textsOf(to.open(from.seal('häll😀'))), ['häll😀']);
});

describe('a frame is rejected', () => {
  const rejects = (to: SealedFrames, bytes: Buffer, text: RegExp) =>
    assert.throws(
      () => to.open(bytes),
      (error) => error instanceof TamperedFrame && text.test(error.message),
    );

  test('if any of its bytes was changed', () => {
    const length = pair()[0].seal('content').length;
    for (let at = 0; at < length; at++) {
      const [from, to] = pair();
      const bytes = Buffer.concat([from.seal('content'), from.seal('x'.repeat(280))]);
      bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
      assert.throws(() => to.open(bytes), ProtocolError, `byte ${at}`);
    }
  });

  test('if it comes a second time', () => {
    const [from, to] = pair();
    const frame = from.seal('a');
    assert.deepEqual(textsOf(to.open(frame)), ['a']);
    rejects(to, frame, /^frame 0 for a second time$/);
  });

  test('if it comes before an earlier one, or an earlier one is missing', () => {
    const [from, to] = pair();
    const [, second] = [from.seal('a'), from.seal('b')];
    rejects(to, second, /^frame 1 where frame 0 was due$/);
  });

  test('if it is sent back to its sender', () => {
    const [from] = pair();
    rejects(from, from.seal('a'), /^frame 0 with a wrong authentication code$/);
  });

  test('if it is of another connection', () => {
    const [, to] = pair();
    const [other] = pair();
    rejects(to, other.seal('a'), /wrong authentication code/);
  });

  test('if it is too short, or longer than allowed, before any of it is kept', () => {
    for (const length of [0, 1, 22, 323, 2 ** 32 - 1]) {
      const head = Buffer.alloc(4 + 22);
      head.writeUInt32BE(length);
      assert.throws(() => pair()[1].open(head.subarray(0, length > 22 ? 4 : 4 + length)), ProtocolError);
    }
  });
});

test('part of a frame is no message, and shows when the connection ends', () => {
  const [from, to] = pair();
  assert.deepEqual(to.open(from.seal('content').subarray(0, -1)), []);
  assert.equal(to.isWhole, false);
});

test('ten thousand random pieces are never a message', () => {
  const [from, to] = pair();
  const real = from.seal('content');
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 60 }), fc.boolean(), (random, isLikeOurs) => {
      const bytes = Buffer.from(random);
      // Half of them with a length that would do.
      if (isLikeOurs && bytes.length > 4) bytes.writeUInt32BE(bytes.length - 4, 0);
      const reader = pair()[1];
      try {
        assert.deepEqual(reader.open(bytes), []);
      } catch (error) {
        assert.ok(error instanceof ProtocolError, String(error));
      }
    }),
    { numRuns: 10_000 },
  );
  assert.deepEqual(textsOf(to.open(real)), ['content']);
});

test('the error says what was seen and from where, and that somebody may be tampering', () => {
  const frame = new TamperedFrame('frame 3 for a second time');
  const error = tamperedError('rank 2 at 10.0.0.2:4000', frame, { rank: 2 });
  assert.equal(error.code, 'ERR_HVD_TAMPERED');
  assert.equal(error.rank, 2);
  assert.match(error.message, /rank 2 at 10\.0\.0\.2:4000 sent frame 3 for a second time: .*tampering/);
});
