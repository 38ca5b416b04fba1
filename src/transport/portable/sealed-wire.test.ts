import assert from 'node:assert/strict';
import { createCipheriv } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { bytes } from '../../../test/support/transport-data.ts';
import { ForgedRecordError, SealedWire, type Wire } from './sealed-wire.ts';

const keys = { send: Buffer.alloc(32, 1), receive: Buffer.alloc(32, 2) };
const theirKeys = { send: keys.receive, receive: keys.send };

/** A line that takes and gives some bytes at a time, as `steps` says, and now and then none. */
class Line implements Wire {
  readonly #steps: () => number;
  bytes: Buffer = Buffer.alloc(0);
  isClosed = false;

  constructor(steps: () => number = () => Number.POSITIVE_INFINITY) {
    this.#steps = steps;
  }

  write(source: Uint8Array, offset: number, wanted: number): number {
    const moved = this.#moves(wanted);
    this.bytes = Buffer.concat([this.bytes, source.subarray(offset, offset + moved)]);
    return moved;
  }

  read(place: Uint8Array, offset: number, wanted: number): number {
    if (this.bytes.length === 0 && this.isClosed) return 0;
    const moved = this.#moves(Math.min(wanted, this.bytes.length));
    place.set(this.bytes.subarray(0, moved), offset);
    this.bytes = this.bytes.subarray(moved);
    return moved;
  }

  #moves(wanted: number): number {
    const moved = Math.min(wanted, this.#steps());
    if (moved === 0) throw Object.assign(new Error('try again'), { code: 'EAGAIN' });
    return moved;
  }
}

function orAgain(move: () => number): number {
  try {
    return move();
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, 'EAGAIN');
    return 0;
  }
}

/** Records of the texts, as they travel. */
function recordsOf(...texts: readonly Uint8Array[]): Buffer[] {
  const line = new Line();
  const wire = new SealedWire(line, keys);
  return texts.map((text) => {
    assert.equal(wire.write(text, 0, text.length), text.length);
    const record = line.bytes;
    line.bytes = Buffer.alloc(0);
    return record;
  });
}

function reading(...records: readonly Uint8Array[]): { wire: SealedWire; line: Line } {
  const line = new Line();
  line.bytes = Buffer.concat(records);
  return { wire: new SealedWire(line, theirKeys), line };
}

const place = new Uint8Array(1000);

test('a stream arrives as it was sent, whatever the pieces, sizes, interleavings and keys in between', () => {
  const stream = (maxBytes: number, minStep: number, maxStep: number) =>
    fc.record({
      size: fc.integer({ min: 0, max: maxBytes }),
      list: fc.array(fc.oneof(fc.constant(0), fc.integer({ min: minStep, max: maxStep })), {
        minLength: 1,
        maxLength: 20,
      }),
    });
  fc.assert(
    fc.property(
      fc.oneof(stream(500, 1, 40), stream(200_000, 5000, 100_000)),
      fc.integer({ min: 1, max: 5 }),
      ({ size, list }, rekeyEvery) => {
        // Every hundredth step is a large one, so that each stream arrives whatever the list says.
        let turn = 0;
        const next = () => (++turn % 101 === 0 ? 50_000 : (list[turn % list.length] as number));
        const line = new Line(next);
        const [from, to] = [
          new SealedWire(line, keys, rekeyEvery),
          new SealedWire(line, theirKeys, rekeyEvery),
        ];
        const sent = bytes(size, 1);
        const received = new Uint8Array(size);
        let [gone, arrived] = [0, 0];
        while (arrived < size) {
          if (gone < size) gone += orAgain(() => from.write(sent, gone, size - gone));
          const wanted = Math.min(size - arrived, next() + 1);
          arrived += orAgain(() => to.read(received, arrived, wanted));
        }
        assert.ok(Buffer.from(sent).equals(received));
        assert.equal(line.bytes.length, 0);
      },
    ),
    { numRuns: 60 },
  );
});

test('a record is its length, AES-256-GCM with its number as nonce, and the tag', () => {
  const text = Buffer.from('some text');
  const records = recordsOf(text, text, text);
  records.forEach((record, number) => {
    const cipher = createCipheriv('aes-256-gcm', keys.send, Buffer.from([...new Array(11).fill(0), number]));
    const sealed = Buffer.concat([cipher.update(text), cipher.final()]);
    assert.deepEqual(record, Buffer.concat([Buffer.from([9, 0, 0, 0]), sealed, cipher.getAuthTag()]));
  });
});

test('one bit that is flipped anywhere in a record ends the stream, and no byte of that record comes out', () => {
  const text = bytes(40, 3);
  const [first, second, ...others] = recordsOf(text, text, bytes(60_000, 1), bytes(60_000, 1)) as Buffer[];
  assert.ok(first !== undefined && second !== undefined);
  for (let bit = 0; bit < second.length * 8; bit++) {
    const altered = Buffer.from(second);
    const at = Math.floor(bit / 8);
    altered.writeUInt8(altered.readUInt8(at) ^ (1 << (bit % 8)), at);
    // A length that has grown takes bytes of the records behind it.
    const { wire } = reading(first, altered, ...others);
    assert.equal(wire.read(place, 0, 40), 40);
    place.fill(0);
    for (let n = 0; n < 2; n++) assert.throws(() => wire.read(place, 0, 40), ForgedRecordError, `bit ${bit}`);
    assert.ok(place.every((byte) => byte === 0));
  }
});

test('a record that is repeated, left out or sent back does not open; one that is cut off is an end', () => {
  const text = bytes(40, 3);
  const [first, second, third] = recordsOf(text, text, text) as [Buffer, Buffer, Buffer];
  for (const wrong of [first, third]) {
    const { wire } = reading(first, wrong, second);
    assert.equal(wire.read(place, 0, 1000), 40);
    assert.throws(() => wire.read(place, 0, 1000), ForgedRecordError);
  }
  const line = new Line();
  line.bytes = first;
  assert.throws(() => new SealedWire(line, keys).read(place, 0, 1), ForgedRecordError);
  const { wire, line: short } = reading(first, second.subarray(0, -1));
  short.isClosed = true;
  assert.equal(wire.read(place, 0, 1000), 40);
  assert.equal(wire.read(place, 0, 1000), 0);
});
