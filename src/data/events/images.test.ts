import assert from 'node:assert/strict';
import { test } from 'node:test';
import sharp from 'sharp';
import { toPng } from './images.ts';
import { pngSize } from './png.ts';

/** Of another implementation. */
async function decoded(file: Uint8Array) {
  const { data, info } = await sharp(file).raw().toBuffer({ resolveWithObject: true });
  return { pixels: [...data], width: info.width, height: info.height };
}

for (const [name, channels] of [
  ['grey', 1],
  ['RGB', 3],
  ['RGBA', 4],
] as const) {
  test(`${name} pixels come back from the PNG file`, async () => {
    const [width, height] = [7, 5];
    const data = Uint8Array.from({ length: width * height * channels }, (_, i) => (i * 37) % 256);
    const png = toPng({ data, width, height });
    assert.deepEqual([png.width, png.height], [width, height]);
    assert.deepEqual(pngSize(png.bytes), { width, height });
    const { pixels, ...size } = await decoded(png.bytes);
    assert.deepEqual(size, { width, height });
    // sharp gives grey as it is, or as three equal channels.
    const step = pixels.length / data.length;
    assert.deepEqual(
      pixels.filter((_, i) => i % step === 0),
      [...data],
    );
  });
}

test('floats from 0 to 1 become bytes; what is beyond is limited', async () => {
  const data = Float32Array.of(0, 0.5, 1, 2, -1, Number.NaN);
  const { pixels } = await decoded(toPng({ data, width: 2, height: 1 }).bytes);
  assert.deepEqual(pixels, [0, 128, 255, 255, 0, 0]);
});

test('a PNG file is taken as it is', () => {
  const { bytes } = toPng({ data: new Uint8Array(4), width: 2, height: 2 });
  assert.deepEqual(toPng(bytes), { bytes, width: 2, height: 2 });
});

test('what is no image is rejected with what would be one', () => {
  const code = 'ERR_HVD_INVALID_ARGUMENT';
  const wrong: [unknown, RegExp][] = [
    [new Uint8Array(30), /must be a PNG file/],
    [{ data: new Uint8Array(8), width: 2, height: 2 }, /4, 12, 16 elements, not 8/],
    [{ data: new Uint8Array(4), width: 2, height: 0 }, /whole numbers from 1/],
    [{ data: new Uint8Array(4), width: 1e6, height: 2 }, /whole numbers from 1/],
    [{ data: [1, 2], width: 2, height: 1 }, /must be a Uint8Array/],
    [undefined, /whole numbers/],
  ];
  for (const [input, message] of wrong) assert.throws(() => toPng(input as never), { code, message });
});
