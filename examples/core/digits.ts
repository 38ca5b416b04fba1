// A generated data set: nothing to download, yet hard enough to need training. Each sample is a digit drawn with
// strokes on 16 × 16 gray pixels, randomly rotated, sheared, stretched and shifted, with a random pen width and noise.
// Sample n is always the same image.

export const imageSize = 16;
export const pixels: number = imageSize * imageSize;
export const classes = 10;

export interface Samples {
  readonly count: number;
  /** `count` images of `pixels` values around 0, one after another. */
  readonly images: Float32Array;
  readonly labels: Uint8Array;
}

type Point = readonly [x: number, y: number];

// Strokes on a grid 4 units wide and 6 units high; y points down.
const strokes: readonly (readonly Point[])[][] = [
  [
    [
      [1, 0],
      [3, 0],
      [4, 2],
      [4, 4],
      [3, 6],
      [1, 6],
      [0, 4],
      [0, 2],
      [1, 0],
    ],
  ],
  [
    [
      [1, 1.5],
      [2.5, 0],
      [2.5, 6],
    ],
    [
      [1, 6],
      [4, 6],
    ],
  ],
  [
    [
      [0, 1.5],
      [1, 0],
      [3, 0],
      [4, 1.5],
      [3.5, 3],
      [0, 6],
      [4, 6],
    ],
  ],
  [
    [
      [0, 0.5],
      [2, 0],
      [4, 1],
      [3.5, 2.5],
      [1.5, 3],
      [4, 4],
      [3.5, 5.5],
      [2, 6],
      [0, 5.5],
    ],
  ],
  [
    [
      [3, 6],
      [3, 0],
      [0, 4],
      [4, 4],
    ],
  ],
  [
    [
      [4, 0],
      [0.5, 0],
      [0, 3],
      [2.5, 2.5],
      [4, 4],
      [3, 6],
      [0, 5.5],
    ],
  ],
  [
    [
      [3.5, 0],
      [1, 1.5],
      [0, 4],
      [1, 6],
      [3, 6],
      [4, 4.5],
      [3, 3],
      [1, 3],
      [0, 4],
    ],
  ],
  [
    [
      [0, 0],
      [4, 0],
      [1.5, 6],
    ],
    [
      [1, 3],
      [3.5, 3],
    ],
  ],
  [
    [
      [2, 3],
      [0.5, 1.5],
      [2, 0],
      [3.5, 1.5],
      [2, 3],
      [0, 4.5],
      [2, 6],
      [4, 4.5],
      [2, 3],
    ],
  ],
  [
    [
      [4, 2],
      [3, 3],
      [1, 3],
      [0, 1.5],
      [1, 0],
      [3, 0],
      [4, 2],
      [3, 4.5],
      [0.5, 6],
    ],
  ],
];

/** Draws samples first, first + step, first + 2 · step, and so on. A rank uses this to draw only its share. */
export function drawDigits(count: number, first = 0, step = 1): Samples {
  const images = new Float32Array(count * pixels);
  const labels = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    const number = first + i * step;
    const random = randomNumbers(number);
    const label = Math.floor(random() * classes);
    labels[i] = label;
    drawDigit(images.subarray(i * pixels, (i + 1) * pixels), label, random);
  }
  return { count, images, labels };
}

function drawDigit(image: Float32Array, label: number, random: () => number): void {
  const spread = (range: number): number => (2 * random() - 1) * range;
  const angle = spread(0.25);
  const shear = spread(0.25);
  const [scaleX, scaleY] = [1.9 * (1 + spread(0.25)), 1.8 * (1 + spread(0.2))];
  const [moveX, moveY] = [spread(1.8), spread(1.8)];
  const pen = 0.7 + random() * 0.6;
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  const place = ([x, y]: Point): Point => {
    const [a, b] = [(x - 2 + shear * (3 - y)) * scaleX, (y - 3) * scaleY];
    return [imageSize / 2 + moveX + a * cos - b * sin, imageSize / 2 + moveY + a * sin + b * cos];
  };
  const lines = (strokes[label] as (readonly Point[])[]).map((stroke) =>
    stroke.map((point) => place([point[0] + spread(0.25), point[1] + spread(0.25)])),
  );
  for (let y = 0; y < imageSize; y++) {
    for (let x = 0; x < imageSize; x++) {
      const ink = Math.max(0, 1.2 - distance([x + 0.5, y + 0.5], lines) / pen);
      image[y * imageSize + x] = Math.min(1, ink) - 0.2 + spread(0.35);
    }
  }
}

/** Distance from a point to the nearest line. */
function distance([x, y]: Point, lines: readonly (readonly Point[])[]): number {
  let nearest = Number.POSITIVE_INFINITY;
  for (const line of lines) {
    for (let i = 1; i < line.length; i++) {
      const [[ax, ay], [bx, by]] = [line[i - 1] as Point, line[i] as Point];
      const [dx, dy] = [bx - ax, by - ay];
      const along = ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1);
      const t = Math.min(1, Math.max(0, along));
      nearest = Math.min(nearest, Math.hypot(x - ax - t * dx, y - ay - t * dy));
    }
  }
  return nearest;
}

/** Random numbers in [0, 1) that depend only on the seed (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b1);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
