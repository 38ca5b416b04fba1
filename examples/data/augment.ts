// Data augmentation: rotates, scales and shifts images at random, so that a network never sees the same image twice.
// It works on typed arrays. Each rank augments the images of its own batches.

export interface Augmentation {
  /** Maximum rotation in either direction, in degrees. */
  readonly degrees: number;
  /** Maximum shift along x and y, as a fraction of the image size. */
  readonly shift: number;
  /** Maximum change of scale, as a fraction. */
  readonly zoom: number;
}

/** Writes a randomly changed copy of `from` to `to`. Both hold `side` × `side` values, row by row. */
export function augment(
  from: Float32Array,
  to: Float32Array,
  side: number,
  { degrees, shift, zoom }: Augmentation,
  random: () => number,
): void {
  const spread = (range: number): number => (2 * random() - 1) * range;
  const angle = (spread(degrees) * Math.PI) / 180;
  const scale = 1 / (1 + spread(zoom));
  const [cos, sin] = [Math.cos(angle) * scale, Math.sin(angle) * scale];
  const [moveX, moveY] = [spread(shift) * side, spread(shift) * side];
  const middle = (side - 1) / 2;
  // For each new pixel, find its position in the source image and interpolate between the four pixels around it.
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      const [dx, dy] = [x - middle - moveX, y - middle - moveY];
      const [sourceX, sourceY] = [middle + cos * dx + sin * dy, middle - sin * dx + cos * dy];
      const [left, top] = [Math.floor(sourceX), Math.floor(sourceY)];
      const [right, bottom] = [sourceX - left, sourceY - top];
      const upper = (1 - right) * at(from, side, left, top) + right * at(from, side, left + 1, top);
      const lower = (1 - right) * at(from, side, left, top + 1) + right * at(from, side, left + 1, top + 1);
      to[y * side + x] = (1 - bottom) * upper + bottom * lower;
    }
  }
}

function at(image: Float32Array, side: number, x: number, y: number): number {
  return x < 0 || y < 0 || x >= side || y >= side ? 0 : (image[y * side + x] as number);
}
