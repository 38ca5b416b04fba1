// TFRecord files as the pipeline reads them. The checksum of a length is always verified, because a wrong length would lead
// anywhere; that of the data unless `verifyCrc` is false. With `onCorrupt: 'skip'`, a record whose data is damaged is left
// out, and after a damaged length the next place is searched where both checksums of a record are right.

import {
  type ByteFormat,
  type ChunkPlace,
  dataFileError,
  type FileIndex,
  type FormatFile,
  type RecordRanges,
} from '../format.ts';
import { type Compression, detectCompression, inflatedStream } from '../inflate.ts';
import { plainStream, streamBlocks } from '../stream-blocks.ts';
import { maskCrc } from './crc32c.ts';
import { indexOfHeaders } from './header-scan.ts';
import {
  framingBytes,
  headerBytes,
  maxRecordBytes,
  portableRecordKernels,
  type RecordKernels,
  scanProblem,
  scanReport,
} from './record-kernels.ts';

export interface TfRecordOptions {
  /** Default 'auto': by the first bytes of each file. */
  readonly compression?: 'auto' | Compression | undefined;
  /** Default true. */
  readonly verifyCrc?: boolean | undefined;
  /** Default 'fail'. */
  readonly onCorrupt?: 'fail' | 'skip' | undefined;
  /** Default: those in JavaScript. */
  readonly kernels?: RecordKernels | undefined;
}

export function tfRecordFormat(options: TfRecordOptions = {}): ByteFormat {
  const { verifyCrc = true, onCorrupt = 'fail', kernels = portableRecordKernels } = options;
  const skips = onCorrupt === 'skip';
  const report = new Float64Array(4);

  const compressionOf = async (file: FormatFile): Promise<Compression> =>
    options.compression === undefined || options.compression === 'auto'
      ? await detectCompression(file)
      : options.compression;

  const split = (chunk: Uint8Array, place: ChunkPlace, ranges: RecordRanges): void => {
    ranges.clear();
    let from = 0;
    while (true) {
      const starts = ranges.count === 0 ? ranges.starts : ranges.starts.subarray(ranges.count);
      const lengths = ranges.count === 0 ? ranges.lengths : ranges.lengths.subarray(ranges.count);
      ranges.count += kernels.scanRecords(chunk, from, verifyCrc, starts, lengths, report);
      from = report[scanReport.consumed] as number;
      const problem = report[scanReport.problem] as number;
      if (problem !== scanProblem.none) {
        if (!skips) throw damagedRecord(chunk, from, problem, report[scanReport.length] as number, place);
        ranges.damaged.push(from);
        from =
          problem === scanProblem.dataChecksum
            ? from + framingBytes + (report[scanReport.length] as number)
            : nextRecord(chunk, from + 1, place.isLast, kernels);
        continue;
      }
      const needed = report[scanReport.needed] as number;
      if (needed === 0) {
        ranges.grow();
        continue;
      }
      ranges.needed = needed;
      break;
    }
    if (place.isLast && from < chunk.length) {
      if (!skips) throw truncatedRecord(chunk, from, report, place);
      ranges.damaged.push(from);
      from = chunk.length;
    }
    ranges.consumed = from;
  };

  const stream: ByteFormat['stream'] = async function* (file, streamOptions = {}) {
    const compression = await compressionOf(file);
    const bytes =
      compression === 'none'
        ? plainStream(file, streamOptions.signal)
        : inflatedStream(file, compression, streamOptions.signal);
    yield* streamBlocks(file.location, bytes, split, streamOptions);
  };

  const index = async (file: FormatFile): Promise<FileIndex> => {
    if ((await compressionOf(file)) === 'none') {
      const found = await indexOfHeaders(file, kernels, skips);
      if (found !== undefined) return found;
    }
    // Compressed, or damaged and to be read all the same: count what a reader will get.
    let records = 0;
    for await (const block of stream(file)) records += block.count;
    return { records, offsets: null };
  };

  return { name: 'tfrecord', index, split, stream };
}

/** The next place from `at` on where a whole record with right checksums begins; else the end, but for a header's length. */
function nextRecord(chunk: Uint8Array, at: number, isLast: boolean, kernels: RecordKernels): number {
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  for (; chunk.length - at >= headerBytes; at++) {
    // Cheap tests first: most lengths that random bytes make are far too large.
    if (view.getUint32(at + 4, true) !== 0) continue;
    const length = view.getUint32(at, true);
    if (length > maxRecordBytes) continue;
    if (view.getUint32(at + 8, true) !== maskCrc(kernels.crc32c(chunk, at, at + 8))) continue;
    const start = at + headerBytes;
    if (start + length + 4 > chunk.length) {
      if (isLast) continue;
      return at;
    }
    if (view.getUint32(start + length, true) === maskCrc(kernels.crc32c(chunk, start, start + length)))
      return at;
  }
  return isLast ? chunk.length : Math.min(at, chunk.length);
}

function damagedRecord(
  chunk: Uint8Array,
  at: number,
  problem: number,
  length: number,
  place: ChunkPlace,
): Error {
  const where = `the record at byte ${place.offset + at}`;
  if (problem === scanProblem.dataChecksum) {
    return dataFileError(
      place.location,
      `${where} (${length} bytes) is damaged: its checksum does not match. Copy or write the file again, or use onCorrupt: 'skip'.`,
    );
  }
  if (problem === scanProblem.tooLong) {
    return dataFileError(
      place.location,
      `${where} has ${length} bytes; at most ${maxRecordBytes} are supported.`,
    );
  }
  if (place.offset + at === 0) {
    return dataFileError(
      place.location,
      `this is not a TFRecord file: it begins with ${hex(chunk)}. Check the path, and the option compression if it is set.`,
    );
  }
  return dataFileError(
    place.location,
    `${where} is damaged: the checksum of its length does not match. Copy or write the file again, or use onCorrupt: 'skip'.`,
  );
}

function truncatedRecord(chunk: Uint8Array, at: number, report: Float64Array, place: ChunkPlace): Error {
  const rest = chunk.length - at;
  if (place.offset + at === 0 && rest < headerBytes) {
    return dataFileError(
      place.location,
      `this is not a TFRecord file: it begins with ${hex(chunk)}, and has ${rest} bytes.`,
    );
  }
  const needed = report[scanReport.needed] as number;
  return dataFileError(
    place.location,
    `the file ends inside the record at byte ${place.offset + at}: ${needed - rest} bytes are missing. ` +
      "It was not written or copied completely; write it again, or use onCorrupt: 'skip'.",
  );
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes.subarray(0, 12), (byte) => byte.toString(16).padStart(2, '0')).join(' ');
}
