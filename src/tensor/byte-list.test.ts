import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ByteList } from './byte-list.ts';

test('any range of any list reads and writes as one run of bytes', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 9 }), { maxLength: 12 }),
      fc.nat(),
      fc.nat(),
      (arrays, a, b) => {
        const list = new ByteList(arrays);
        const whole = Buffer.concat(arrays);
        assert.equal(list.byteLength, whole.length);
        const start = a % (whole.length + 1);
        const length = b % (whole.length - start + 1);
        const target = new Uint8Array(length + 3);
        list.read(start, length, target, 2);
        assert.deepEqual(Buffer.from(target.subarray(2, 2 + length)), whole.subarray(start, start + length));
        const view = list.view(start, length);
        if (view !== undefined) {
          assert.deepEqual(Buffer.from(view), whole.subarray(start, start + length));
        }
        list.write(start, length, new Uint8Array(length + 1).fill(0xee), 1);
        whole.fill(0xee, start, start + length);
        assert.deepEqual(Buffer.concat(arrays), whole);
      },
    ),
  );
});

test('elements of any size are bytes of the run', () => {
  const list = new ByteList([Float32Array.of(1), new Float64Array(0), Int16Array.of(2, 3).subarray(1)]);
  const bytes = new Uint8Array(6);
  list.read(0, 6, bytes, 0);
  assert.deepEqual(bytes, Uint8Array.of(0, 0, 0x80, 0x3f, 3, 0));
});
