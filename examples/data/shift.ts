// A function for datasets: moves an image by a few pixels. Threads import this file, so it does nothing but export functions.

import type { Tensor } from 'horovod';
import type { ElementContext } from 'horovod/data';

interface Digit {
  readonly image: Tensor;
  readonly label: Tensor;
}

/** `random` depends on seed, epoch and position alone: a second run moves every image by the same pixels. */
export function shift(
  { image, label }: Digit,
  { random, args }: ElementContext<{ readonly pixels: number }>,
): Digit {
  const [height = 0, width = 0] = image.shape;
  const by = () => Math.round((2 * random() - 1) * args.pixels);
  const [down, right] = [by(), by()];
  const moved = new Uint8Array(image.data.length);
  for (let row = Math.max(0, down); row < Math.min(height, height + down); row += 1) {
    const from = (row - down) * width;
    const line = (image.data as Uint8Array).subarray(
      from + Math.max(0, -right),
      from + width - Math.max(0, right),
    );
    moved.set(line, row * width + Math.max(0, right));
  }
  return { image: { ...image, data: moved }, label };
}
