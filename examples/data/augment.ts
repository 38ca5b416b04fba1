// Pictures that are a little different each time: turned, resized and moved at random, so that a network sees no picture
// twice. Works on typed arrays alone; a rank does it for the pictures of its own batches.

export interface Augmentation {
  /** Largest turn to either side, in degrees. */
  readonly degrees: number;
  /** Largest move along x and y, as a share of the picture. */
  readonly shift: number;
  /** Largest change of size, as a share. */
  readonly zoom: number;
}

/** Draws the picture `from` changed at random into `to`. Both are square, `side` × `side` values, row after row. */
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
  // Backwards: where does the value of each new pixel come from? Between pixels, from the four around.
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
