// What users give as an image: a PNG file, or pixels as numbers.

import { HorovodError } from '../../errors.ts';
import { describe } from '../../tensor/tensor.ts';
import { encodePng, pngSize } from './png.ts';

/** Grey, RGB or RGBA, row by row from the top: bytes from 0 to 255, or floats from 0 to 1. */
export interface ImagePixels {
  readonly data: Uint8Array | Uint8ClampedArray | Float32Array;
  readonly width: number;
  readonly height: number;
}

/** Pixels, or a PNG file. */
export type ImageInput = ImagePixels | Uint8Array;

export interface PngFile {
  readonly bytes: Uint8Array;
  readonly width: number;
  readonly height: number;
}

/** PNG stores sizes in 31 bits; browsers show images up to about this size. */
const maxSide = 16_384;

export function toPng(input: ImageInput): PngFile {
  if (input instanceof Uint8Array) {
    const size = pngSize(input);
    if (size === undefined) throw wrong('bytes must be a PNG file; give pixels as { data, width, height }');
    return { bytes: input, ...size };
  }
  const { data, width, height } = (input ?? {}) as ImagePixels;
  const isSide = (value: unknown) => Number.isSafeInteger(value) && (value as number) > 0;
  if (!isSide(width) || !isSide(height) || width > maxSide || height > maxSide)
    throw wrong(
      `width and height must be whole numbers from 1 to ${maxSide}, not ${describe(width)} and ${describe(height)}`,
    );
  const isFloat = data instanceof Float32Array;
  if (!isFloat && !(data instanceof Uint8Array) && !(data instanceof Uint8ClampedArray))
    throw wrong(`data must be a Uint8Array (0 to 255) or a Float32Array (0 to 1), not ${describe(data)}`);
  const channels = data.length / (width * height);
  if (channels !== 1 && channels !== 3 && channels !== 4)
    throw wrong(
      `${width} × ${height} pixels have 1, 3 or 4 numbers each, so data must have ${[1, 3, 4].map((count) => width * height * count).join(', ')} elements, not ${data.length}`,
    );
  return {
    bytes: encodePng({ data: isFloat ? toBytes(data) : data, width, height, channels }),
    width,
    height,
  };
}

/** Rounded, and limited to 0 and 255. NaN becomes 0. */
function toBytes(data: Float32Array): Uint8ClampedArray {
  return Uint8ClampedArray.from(data, (value) => value * 255);
}

function wrong(what: string): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `SummaryWriter.image: ${what}.`);
}
