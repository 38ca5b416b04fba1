// Text files whose records are lines: plain text, JSON lines and CSV. A line ends with \n or \r\n, which are not part of the
// record; the last one may lack it. Files may be gzipped, which their first bytes show.

import {
  type ByteFormat,
  type ChunkPlace,
  dataFileError,
  type FileIndex,
  type FormatFile,
  type RecordRanges,
} from '../format.ts';
import { detectCompression, inflatedStream } from '../inflate.ts';
import { plainStream, streamBlocks } from '../stream-blocks.ts';

export interface LinesOptions {
  /** The first line is no record. Default false. */
  readonly hasHeader?: boolean;
  /** Lines without a character are no records. Default false. */
  readonly skipsBlank?: boolean;
  /** Line ends between double quotes belong to the record. Default false. */
  readonly quotedNewlines?: boolean;
}

const newline = 10;
const carriageReturn = 13;
const quote = 34;

export function linesFormat(options: LinesOptions = {}): ByteFormat {
  const { hasHeader = false, skipsBlank = false, quotedNewlines = false } = options;
  const endOfLine = quotedNewlines ? endOutsideQuotes : endAnywhere;

  const split = (chunk: Uint8Array, place: ChunkPlace, ranges: RecordRanges): void => {
    ranges.clear();
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let at = 0;
    let isHeader = hasHeader && place.offset === 0;
    while (at < bytes.length) {
      const found = endOfLine(bytes, at);
      if (found < 0 && !place.isLast) break;
      if (found < 0 && quotedNewlines && isInsideQuotes(bytes, at)) {
        throw dataFileError(
          place.location,
          `the quote in the line at byte ${place.offset + at} is never closed.`,
        );
      }
      const lineEnd = found < 0 ? bytes.length : found;
      const end = lineEnd > at && bytes[lineEnd - 1] === carriageReturn ? lineEnd - 1 : lineEnd;
      if (!isHeader && !(skipsBlank && end === at)) ranges.add(at, end - at);
      isHeader = false;
      at = Math.min(lineEnd + 1, bytes.length);
    }
    ranges.consumed = at;
    ranges.needed = bytes.length - at + 1;
  };

  const stream: ByteFormat['stream'] = async function* (file, streamOptions = {}) {
    const compression = await detectCompression(file);
    const bytes =
      compression === 'gzip'
        ? inflatedStream(file, compression, streamOptions.signal)
        : plainStream(file, streamOptions.signal);
    yield* streamBlocks(file.location, bytes, split, streamOptions);
  };

  const index = async (file: FormatFile): Promise<FileIndex> => {
    const isPlain = (await detectCompression(file)) !== 'gzip';
    let offsets = new Float64Array(1024);
    let records = 0;
    for await (const block of stream(file)) {
      while (records + block.count + 1 > offsets.length) {
        const longer = new Float64Array(2 * offsets.length);
        longer.set(offsets);
        offsets = longer;
      }
      for (let i = 0; i < block.count; i++) offsets[records + i] = block.offset + (block.starts[i] as number);
      records += block.count;
    }
    if (!isPlain) return { records, offsets: null };
    offsets[records] = file.size;
    return { records, offsets: offsets.slice(0, records + 1) };
  };

  return { name: 'lines', index, split, stream };
}

function endAnywhere(bytes: Buffer, from: number): number {
  return bytes.indexOf(newline, from);
}

/** A doubled quote opens and closes at once, which is the same as none. */
function endOutsideQuotes(bytes: Buffer, from: number): number {
  let isQuoted = false;
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === quote) isQuoted = !isQuoted;
    else if (byte === newline && !isQuoted) return at;
  }
  return -1;
}

function isInsideQuotes(bytes: Buffer, from: number): boolean {
  let quotes = 0;
  for (let at = from; at < bytes.length; at++) if (bytes[at] === quote) quotes++;
  return quotes % 2 === 1;
}
