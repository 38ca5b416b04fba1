// The images of a folder as one file of records, which exists in no place: each record is the length of an image file, its label
// and its content. So images are read, shuffled and batched like any other records, and any thread can decode them.

import type { Files } from '../../../files/registry.ts';
import {
  type AsyncDecoder,
  type BatchColumns,
  type ByteFormat,
  dataFileError,
  type FormatFile,
} from '../format.ts';
import { plainStream, streamBlocks } from '../stream-blocks.ts';
import type { FolderImage, ImageDecoder } from './image-folder.ts';

/** Length and label. */
const headBytes = 8;
/** Files that one read opens at the same time. */
const parallelFiles = 8;

/** Where each record begins, and where the last one ends. */
export function imageOffsets(images: readonly FolderImage[]): Float64Array {
  const offsets = new Float64Array(images.length + 1);
  for (const [place, { size }] of images.entries()) {
    offsets[place + 1] = (offsets[place] as number) + headBytes + size;
  }
  return offsets;
}

export function imageRecords(root: string, images: readonly FolderImage[], files: Files): FormatFile {
  const offsets = imageOffsets(images);
  const size = offsets[images.length] as number;
  const read = async (target: Uint8Array, position: number): Promise<number> => {
    const end = Math.min(position + target.length, size);
    let next = firstAfter(offsets, position) - 1;
    const work = async () => {
      while (next < images.length && (offsets[next] as number) < end) {
        const place = next++;
        const [start, stop] = [offsets[place] as number, offsets[place + 1] as number];
        const isWhole = start >= position && stop <= end;
        const record = isWhole
          ? target.subarray(start - position, stop - position)
          : new Uint8Array(stop - start);
        await readRecord(record, images[place] as FolderImage, files);
        if (isWhole) continue;
        const [from, to] = [Math.max(start, position), Math.min(stop, end)];
        target.set(record.subarray(from - start, to - start), from - position);
      }
    };
    await Promise.all(Array.from({ length: parallelFiles }, work));
    return Math.max(0, end - position);
  };
  return { location: root, size, read };
}

export function imageRecordsFormat(): ByteFormat {
  const split: ByteFormat['split'] = (chunk, place, ranges) => {
    ranges.clear();
    const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let at = 0;
    while (at + headBytes <= chunk.length) {
      const length = view.getUint32(at, true);
      if (at + headBytes + length > chunk.length) {
        ranges.needed = headBytes + length;
        break;
      }
      ranges.add(at + 4, headBytes - 4 + length);
      at += headBytes + length;
    }
    ranges.consumed = at;
    if (place.isLast && at < chunk.length) throw dataFileError(place.location, 'the last image is cut off.');
  };
  const stream: ByteFormat['stream'] = (file, options = {}) =>
    streamBlocks(file.location, plainStream(file, options.signal), split, options);
  return {
    name: 'images',
    async index(file) {
      const offsets: number[] = [];
      for await (const { offset, starts } of stream(file)) {
        for (const start of starts) offsets.push(offset + start - 4);
      }
      return { records: offsets.length, offsets: Float64Array.from([...offsets, file.size]) };
    },
    split,
    stream,
  };
}

/** `{ image, label }` of a record. */
export function imageRecordsDecoder(decoder: ImageDecoder): AsyncDecoder {
  const { shape } = decoder;
  const elements = shape[0] * shape[1] * shape[2];
  const cut = (bytes: Uint8Array, start: number, length: number) => ({
    label: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getInt32(start, true),
    content: bytes.subarray(start + 4, start + length),
  });
  return {
    columns: [
      { name: 'image', dtype: 'uint8', shape, elements },
      { name: 'label', dtype: 'int32', shape: [], elements: 1 },
    ],
    element(bytes, start, length) {
      const { label, content } = cut(bytes, start, length);
      return decoder.element(content, label);
    },
    async fill(bytes, start, length, row, target) {
      const { label, content } = cut(bytes, start, length);
      const [image, labels] = target as [Uint8Array, BatchColumns[number]];
      labels[row] = label as never;
      await decoder.decodeInto(content, image.subarray(row * elements, (row + 1) * elements));
    },
  };
}

async function readRecord(record: Uint8Array, image: FolderImage, files: Files): Promise<void> {
  const { location, label, size } = image;
  const head = new DataView(record.buffer, record.byteOffset, headBytes);
  head.setUint32(0, size, true);
  head.setInt32(4, label, true);
  const fileSystem = await files.fileSystem(location);
  await using handle = await fileSystem.open(location);
  let filled = 0;
  while (handle.size === size && filled < size) {
    const count = await handle.read(record.subarray(headBytes + filled), filled);
    if (count === 0) break;
    filled += count;
  }
  if (filled === size && handle.size === size) return;
  throw dataFileError(
    location,
    `has ${handle.size} bytes; it had ${size} when the folder was listed. It was changed while it was read.`,
  );
}

/** The place of the first offset above a position. */
function firstAfter(offsets: Float64Array, position: number): number {
  let [low, high] = [0, offsets.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((offsets[middle] as number) <= position) low = middle + 1;
    else high = middle;
  }
  return low;
}
