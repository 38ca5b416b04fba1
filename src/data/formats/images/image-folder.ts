// Folders of images, one folder per class: root/cat/1.jpg. Labels are the places of the folders' names in alphabetical order.
// Images are decoded and resized by sharp, an optional peer dependency, on its own threads.

import { HorovodError } from '../../../errors.ts';
import { joinLocation } from '../../../files/location.ts';
import type { Files } from '../../../files/registry.ts';
import { dataFileError, type ElementRecord } from '../format.ts';

/** An image file. */
export interface FolderImage {
  readonly location: string;
  readonly label: number;
  /** In bytes. */
  readonly size: number;
}

export interface ImageFolder {
  /** Names of the classes; a label is a place in this list. */
  readonly labels: readonly string[];
  /** In order of labels, then of names. */
  readonly images: readonly FolderImage[];
}

const imageName = /\.(avif|gif|jpe?g|png|tiff?|webp)$/i;

/** `labels`: the classes in the order of their numbers; default: all folders, sorted. */
export async function listImageFolder(
  files: Files,
  root: string,
  {
    labels: given,
    signal,
  }: { labels?: readonly string[] | undefined; signal?: AbortSignal | undefined } = {},
): Promise<ImageFolder> {
  const fileSystem = await files.fileSystem(root);
  const entries = await fileSystem.list(root, { signal });
  const folders = entries
    .filter(({ kind, name }) => kind === 'folder' && !name.startsWith('.'))
    .map(({ name }) => name);
  const labels = given ?? folders.sort(byCharacters);
  const missing = labels.filter((name) => !folders.includes(name));
  if (missing.length > 0) throw dataFileError(root, `there is no folder ${missing.join(', ')}.`);
  if (labels.length === 0) {
    throw dataFileError(
      root,
      'there are no folders. Put the images of each class into a folder of its own, such as cat/1.jpg.',
    );
  }
  const images: FolderImage[] = [];
  for (const [label, name] of labels.entries()) {
    const folder = joinLocation(root, name);
    const found = await fileSystem.list(folder, { signal });
    const own = found.filter(({ kind, name: file }) => kind === 'file' && imageName.test(file));
    for (const { name: file, size } of own.sort((a, b) => byCharacters(a.name, b.name))) {
      images.push({ location: joinLocation(folder, file), label, size });
    }
  }
  return { labels, images };
}

export interface ImageOptions {
  /** Height and width, or one number for both. The image is cropped to this shape around its centre. */
  readonly size: number | readonly [height: number, width: number];
  /** 1: grey, 3: colours (default), 4: with transparency. */
  readonly channels?: 1 | 3 | 4 | undefined;
}

export interface ImageDecoder {
  readonly shape: readonly [height: number, width: number, channels: number];
  /** Decodes a file's content into `target`, which has room for the shape. Errors name the location, if it is given. */
  decodeInto(content: Uint8Array, target: Uint8Array, location?: string): Promise<void>;
  /** `{ image, label }`; the image is a tensor of uint8. */
  element(content: Uint8Array, label: number, location?: string): Promise<ElementRecord>;
}

export function checkImageOptions({ size, channels = 3 }: ImageOptions): void {
  const [height, width] = sidesOf(size);
  const isWhole = (value: unknown) => Number.isSafeInteger(value) && (value as number) > 0;
  if (isWhole(height) && isWhole(width) && [1, 3, 4].includes(channels)) return;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `imageFolderDataset(): size is a number or [height, width], channels is 1, 3 or 4; not ${JSON.stringify({ size, channels })}.`,
  );
}

/** Loads sharp. */
export async function imageDecoder(options: ImageOptions): Promise<ImageDecoder> {
  checkImageOptions(options);
  const { size, channels = 3 } = options;
  const [height, width] = sidesOf(size);
  const sharp = await loadSharp();
  const shape = [height, width, channels] as const;
  const decode = async (content: Uint8Array, location?: string): Promise<Uint8Array> => {
    try {
      // sharp does not take shared memory.
      const input = content.buffer instanceof SharedArrayBuffer ? Uint8Array.from(content) : content;
      const image = sharp(input).rotate().resize(width, height, { fit: 'cover' });
      const coloured = channels === 1 ? image.grayscale() : image.toColourspace('srgb');
      const withAlpha = channels === 4 ? coloured.ensureAlpha() : coloured.flatten().removeAlpha();
      const { data, info } = await withAlpha.raw().toBuffer({ resolveWithObject: true });
      if (info.channels === channels) return data;
      throw new Error(`it has ${info.channels} channels instead of ${channels}`);
    } catch (cause) {
      const text = `the image cannot be decoded: ${(cause as Error).message}.`;
      if (location !== undefined) throw dataFileError(location, text, cause);
      throw new HorovodError('ERR_HVD_DATA_FILE', text, { cause });
    }
  };
  return {
    shape,
    async decodeInto(content, target, location) {
      target.set(await decode(content, location));
    },
    async element(content, label, location) {
      const data = Uint8Array.from(await decode(content, location));
      return {
        image: { data, shape, dtype: 'uint8' },
        label: { data: Int32Array.of(label), shape: [], dtype: 'int32' },
      };
    },
  };
}

function sidesOf(size: ImageOptions['size']): readonly [height: number, width: number] {
  return Array.isArray(size) ? (size as unknown as [number, number]) : [size as number, size as number];
}

async function loadSharp(): Promise<typeof import('sharp')['default']> {
  try {
    return (await import('sharp')).default;
  } catch (cause) {
    throw new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      'Images are decoded by the package sharp, which is not installed. Run npm install sharp.',
      { cause },
    );
  }
}

/** The same order on every machine, whatever its language. */
function byCharacters(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
