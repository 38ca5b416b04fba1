import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { plainKernels } from '../../tensor/compression/kernels.ts';
import { loadNative } from './load.ts';

const native = loadNative();

/** The same numbers every time: a multiplicative generator, its state in a closure. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    return (state >>> 0) / 2 ** 32;
  };
}

const special = [
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  0,
  -0,
  2 ** -149,
  -(2 ** -149),
  190 * 2 ** -149,
  3.4028234663852886e38,
  -3.4028234663852886e38,
];

/** What the values of an array are like. */
const kinds: Readonly<Record<string, (next: () => number) => number>> = {
  ordinary: (next) => (next() - 0.5) * 10 ** Math.floor(next() * 6 - 3),
  'few different ones': (next) => Math.floor(next() * 5) - 2,
  'halves of a code': (next) => (next() < 0.05 ? 127 : Math.round((next() - 0.5) * 500) / 2),
  zeros: (next) => (next() < 0.5 ? 0 : -0),
  subnormal: (next) => Math.round((next() - 0.5) * 400) * 2 ** -149,
  'very large': (next) => (next() - 0.5) * 6.8e38,
  'one special in ten': (next) =>
    next() < 0.1 ? (special[Math.floor(next() * special.length)] as number) : next() - 0.5,
  'nothing but special ones': (next) => special[Math.floor(next() * special.length)] as number,
};

/** Begins anywhere in its buffer: rarely on a vector's boundary. */
function values(length: number, like: (next: () => number) => number, next: () => number): Float32Array {
  const at = Math.floor(next() * 17);
  const array = new Float32Array(at + length + 1).subarray(at, at + length);
  for (let i = 0; i < length; i++) array[i] = like(next);
  return array;
}

/** Bits; all NaN count as the same. */
function bitsOf(array: Float32Array): Uint32Array {
  const bits = new Uint32Array(array.slice().buffer);
  array.forEach((value, i) => {
    if (Number.isNaN(value)) bits[i] = 0x7fc00000;
  });
  return bits;
}

function assertSame(actual: Float32Array, expected: Float32Array, what: string): void {
  const [bits, wanted] = [bitsOf(actual), bitsOf(expected)];
  if (!Buffer.from(bits.buffer).equals(Buffer.from(wanted.buffer))) assert.deepEqual(bits, wanted, what);
}

const instructionSets = ['baseline', 'avx2', 'avx512'];
const lengths = [0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 255, 256, 257, 513, 1027];

describe('the native kernels of compression equal the definition in compression/kernels.ts to the bit', {
  skip: native.built ? false : native.reason,
}, () => {
  if (!native.built) return;
  const { addon } = native;
  const kernels = addon.compressionKernels;

  for (const instructions of instructionSets)
    for (const [kind, like] of Object.entries(kinds)) {
      test(`${instructions}, int8, ${kind}: codes, scales, sums and rests, at any byte of a packet`, (t) => {
        if (!addon.useInstructionSet(instructions)) return t.skip(`no ${instructions} here`);
        const next = random(kind.length);
        for (const length of lengths)
          for (const block of [4, 12, 64, 256, 65536]) {
            const what = `${length} values in blocks of ${block}`;
            const given = values(length, like, next);
            const scalesAt = Math.floor(next() * 9);
            const codesAt = scalesAt + 4 * Math.ceil(length / block) + Math.floor(next() * 5);
            const expected = new Uint8Array(codesAt + length + 3).fill(0xab);
            const packet = expected.slice();
            plainKernels.quantize(given, block, expected, scalesAt, codesAt);
            kernels.quantize(given, block, packet, scalesAt, codesAt);
            if (!Buffer.from(packet.buffer).equals(expected)) assert.deepEqual(packet, expected, what);
            for (const isAdded of [false, true]) {
              const before = values(length, like, next);
              const [sum, wanted] = [before.slice(), before.slice()];
              plainKernels.dequantize(wanted, block, packet, scalesAt, codesAt, isAdded);
              kernels.dequantize(sum, block, packet, scalesAt, codesAt, isAdded);
              assertSame(sum, wanted, `${what}, added: ${isAdded}`);
              const [rest, wantedRest] = [before.slice(), before.slice()];
              plainKernels.keepRest(wantedRest, given, block, packet, scalesAt, codesAt, isAdded);
              kernels.keepRest(rest, given, block, packet, scalesAt, codesAt, isAdded);
              assertSame(rest, wantedRest, `rest of ${what}, added: ${isAdded}`);
            }
          }
      });

      test(`${instructions}, ${kind}: the same sums and multiples`, (t) => {
        if (!addon.useInstructionSet(instructions)) return t.skip(`no ${instructions} here`);
        const next = random(kind.length + 3);
        for (const length of lengths) {
          const [a, b] = [values(length, like, next), values(length, like, next)];
          const [sum, wanted] = [a.slice(), a.slice()];
          plainKernels.add(wanted, b);
          kernels.add(sum, b);
          assertSame(sum, wanted, `sum of ${length}`);
          for (const factor of [1, 0.5, 1 / 3, -1e-3, 1e30]) {
            const isInPlace = next() < 0.5;
            const [out, expected] = [
              isInPlace ? a.slice() : new Float32Array(length),
              new Float32Array(length),
            ];
            plainKernels.scale(expected, a, factor);
            kernels.scale(out, isInPlace ? out : a, factor);
            assertSame(out, expected, `${length} times ${factor}`);
          }
        }
      });

      test(`${instructions}, ${kind}: the same of the largest values, the same of equal ones`, (t) => {
        if (!addon.useInstructionSet(instructions)) return t.skip(`no ${instructions} here`);
        const next = random(kind.length + 1);
        for (const length of lengths)
          for (const count of new Set([0, 1, 2, length >> 3, length >> 1, length - 1, length])) {
            if (count < 0 || count > length) continue;
            const data = values(length, like, next);
            const [places, wanted] = [new Uint32Array(count), new Uint32Array(count)];
            const [chosen, wantedValues] = [new Float32Array(count), new Float32Array(count)];
            plainKernels.chooseLargest(data, wanted, wantedValues);
            kernels.chooseLargest(data, places, chosen);
            assert.deepEqual(places, wanted, `${count} of ${length}`);
            assertSame(chosen, wantedValues, `${count} of ${length}`);
          }
      });

      test(`${instructions}, ${kind}: the same products of matrices`, (t) => {
        if (!addon.useInstructionSet(instructions)) return t.skip(`no ${instructions} here`);
        const next = random(kind.length + 2);
        for (const rank of [1, 2, 4, 5, 8])
          for (const [rows, columns] of [
            [1, 1],
            [3, 7],
            [8, 8],
            [17, 5],
            [9, 255],
            [16, 256],
            [5, 530],
          ] as const) {
            const what = `${rows} × ${columns}, rank ${rank}`;
            const m = values(rows * columns, like, next);
            const q = values(columns * rank, like, next);
            const p = values(rows * rank, like, next);
            const both = (length: number, run: (k: typeof kernels, out: Float32Array) => void): void => {
              const [out, wanted] = [new Float32Array(length).fill(3), new Float32Array(length).fill(5)];
              run(kernels, out);
              run(plainKernels, wanted);
              assertSame(out, wanted, what);
            };
            both(p.length, (k, out) => k.multiply(m, rows, columns, q, out, rank));
            both(q.length, (k, out) => k.multiplyTransposed(m, rows, columns, p, out, rank));
            both(m.length, (k, out) => k.expand(p, q, rows, columns, rank, out));
          }
      });
    }

  test('wrong arguments are rejected, and nothing is written', () => {
    const floats = new Float32Array(16);
    const packet = new Uint8Array(32);
    const wrong: readonly (() => void)[] = [
      () => kernels.add(floats, new Float32Array(15)),
      () => kernels.scale(floats, new Float32Array(17), 2),
      () => kernels.scale(floats, floats, undefined as unknown as number),
      () => kernels.quantize(floats, 4, packet, 0, 17),
      () => kernels.quantize(floats, 4, packet, 17, 16),
      () => kernels.quantize(floats, 4, packet, 0, -1),
      () => kernels.quantize(floats, 4, packet, 2 ** 60, 16),
      () => kernels.quantize(floats, 4, packet, Number.NaN, 16),
      () => kernels.quantize(floats, 0, packet, 0, 16),
      () => kernels.quantize(floats, 1.5, packet, 0, 16),
      () => kernels.quantize(new Float64Array(16) as unknown as Float32Array, 4, packet, 0, 16),
      () => kernels.quantize(undefined as unknown as Float32Array, 4, packet, 0, 16),
      () => (kernels.quantize as () => void)(),
      () => kernels.dequantize(new Float32Array(17), 4, packet, 0, 16, false),
      () => kernels.dequantize(floats, 4, packet, 0, 16, undefined as unknown as boolean),
      () => kernels.keepRest(new Float32Array(15), floats, 4, packet, 0, 16, false),
      () => kernels.chooseLargest(floats, new Uint32Array(17), new Float32Array(17)),
      () => kernels.chooseLargest(floats, new Uint32Array(2), new Float32Array(1)),
      () => kernels.multiply(floats, 4, 4, new Float32Array(8), new Float32Array(7), 2),
      () => kernels.multiply(floats, 4, 5, new Float32Array(10), new Float32Array(8), 2),
      () => kernels.multiply(floats, 2 ** 33, 2 ** 33, floats, floats, 2),
      () => kernels.multiplyTransposed(floats, 4, 4, new Float32Array(8), new Float32Array(9), 2),
      () => kernels.expand(new Float32Array(8), new Float32Array(8), 4, 4, 2, new Float32Array(15)),
    ];
    for (const call of wrong) assert.throws(call, RangeError, `${call}`);
    assert.deepEqual(packet, new Uint8Array(32));
    assert.deepEqual(floats, new Float32Array(16));
  });
});
