// Reads a file from its beginning as blocks of whole records, whatever the format: fills a piece of memory, lets the format
// find the records in it, and takes what is left over into the next piece. The memory grows for a record that does not fit,
// but never faster than the bytes really come, so a wrong length in a damaged file allocates nothing.

import {
  type ByteFormat,
  dataFileError,
  type FormatFile,
  type RecordBlock,
  RecordRanges,
  type StreamOptions,
} from './format.ts';

/** Bytes in order: fills as much of the target as there is, 0 at the end. */
export interface ByteStream {
  read(target: Uint8Array): Promise<number>;
  close(): Promise<void>;
}

/** Blocks of this size stay in the processor's cache between reading, checking and parsing. */
export const defaultBlockBytes: number = 1 << 20;

export function plainStream(file: FormatFile, signal?: AbortSignal): ByteStream {
  let position = 0;
  return {
    async read(target) {
      signal?.throwIfAborted();
      const wanted = Math.min(target.length, file.size - position);
      if (wanted <= 0) return 0;
      const count = await file.read(wanted === target.length ? target : target.subarray(0, wanted), position);
      if (count === 0) {
        throw dataFileError(
          file.location,
          `the file ended at byte ${position}, but had ${file.size} bytes when it was opened. It was changed while it was read.`,
        );
      }
      position += count;
      return count;
    },
    close: async () => {},
  };
}

export async function* streamBlocks(
  location: string,
  stream: ByteStream,
  split: ByteFormat['split'],
  options: StreamOptions = {},
): AsyncGenerator<RecordBlock, void, void> {
  const {
    blockBytes = defaultBlockBytes,
    allocate = (bytes) => new Uint8Array(bytes),
    release,
    signal,
  } = options;
  const ranges = new RecordRanges();
  let toSkip = options.skip ?? 0;
  let first = 0;
  let offset = 0;
  let memory = allocate(blockBytes);
  let filled = 0;
  let isEnd = false;
  let damaged: number[] = [];
  try {
    while (true) {
      signal?.throwIfAborted();
      while (!isEnd && filled < memory.length) {
        const count = await stream.read(filled === 0 ? memory : memory.subarray(filled));
        isEnd = count === 0;
        filled += count;
      }
      split(memory.subarray(0, filled), { location, offset, isLast: isEnd }, ranges);
      const from = offset;
      damaged.push(...ranges.damaged.map((at) => from + at));
      const rest = filled - ranges.consumed;
      if (isEnd && ranges.count <= toSkip) {
        if (damaged.length > 0) yield emptyBlock(location, first + ranges.count, offset, damaged);
        return;
      }
      // The rest moves to the next piece before this one is handed out: its new owner may do with it what he likes.
      const piece = memory;
      const wanted = Math.max(blockBytes, Math.min(ranges.needed, 2 * piece.length), rest + 1);
      memory = isEnd ? new Uint8Array(0) : allocate(wanted);
      memory.set(piece.subarray(ranges.consumed, filled).subarray(0, memory.length));
      if (ranges.count > toSkip) {
        yield {
          location,
          first: first + toSkip,
          count: ranges.count - toSkip,
          offset,
          bytes: piece.subarray(0, ranges.consumed),
          starts: ranges.starts.slice(toSkip, ranges.count),
          lengths: ranges.lengths.slice(toSkip, ranges.count),
          damaged,
        };
        damaged = [];
        toSkip = 0;
      } else {
        toSkip -= ranges.count;
        release?.(piece);
      }
      if (isEnd) return;
      first += ranges.count;
      offset += ranges.consumed;
      filled = rest;
    }
  } finally {
    await stream.close();
  }
}

function emptyBlock(
  location: string,
  first: number,
  offset: number,
  damaged: readonly number[],
): RecordBlock {
  const none = new Uint32Array(0);
  return {
    location,
    first,
    count: 0,
    offset,
    bytes: new Uint8Array(0),
    starts: none,
    lengths: none,
    damaged,
  };
}
