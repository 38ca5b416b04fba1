// The index of a TFRecord file without an index file: reads the headers of the records, which say how long they are, and
// not the data between them where that is worth it. Small records are closer together than a read is long; then everything
// is read, in large pieces.

import { dataFileError, type FileIndex, type FormatFile } from '../format.ts';
import { maskCrc } from './crc32c.ts';
import { framingBytes, headerBytes, maxRecordBytes, type RecordKernels } from './record-kernels.ts';

const pieceBytes = 1 << 20;
/** To jump over less than this costs more than to read it. */
const worthJumping = 1 << 17;

/** Undefined: a header is damaged, or the last record is not whole, and the caller wants to go on (`toleratesDamage`). */
export async function indexOfHeaders(
  file: FormatFile,
  kernels: RecordKernels,
  toleratesDamage: boolean,
): Promise<FileIndex | undefined> {
  let offsets = new Float64Array(1024);
  let records = 0;
  let piece = new Uint8Array(Math.min(pieceBytes, file.size));
  let view = new DataView(piece.buffer);
  /** What `piece` holds: the file's bytes [from, to). */
  let from = 0;
  let to = 0;
  let jumps = false;
  let at = 0;
  while (at < file.size) {
    if (file.size - at < headerBytes) {
      if (toleratesDamage) return undefined;
      throw truncated(file, at);
    }
    if (at < from || at + headerBytes > to) {
      const wanted = Math.min(jumps ? 4096 : pieceBytes, file.size - at);
      if (piece.length < wanted) {
        piece = new Uint8Array(wanted);
        view = new DataView(piece.buffer);
      }
      from = at;
      to = at + (await readAll(file, piece.subarray(0, wanted), at));
    }
    const place = at - from;
    const length = view.getUint32(place, true) + view.getUint32(place + 4, true) * 2 ** 32;
    if (
      view.getUint32(place + 8, true) !== maskCrc(kernels.crc32c(piece, place, place + 8)) ||
      length > maxRecordBytes
    ) {
      if (toleratesDamage) return undefined;
      throw dataFileError(
        file.location,
        at === 0
          ? 'this is not a TFRecord file: the checksum of the first length does not match.'
          : `the record at byte ${at} is damaged: the checksum of its length does not match. Write the file again, or use onCorrupt: 'skip'.`,
      );
    }
    const next = at + length + framingBytes;
    if (next > file.size) {
      if (toleratesDamage) return undefined;
      throw truncated(file, at);
    }
    if (records + 1 >= offsets.length) {
      const longer = new Float64Array(2 * offsets.length);
      longer.set(offsets);
      offsets = longer;
    }
    offsets[records++] = at;
    jumps = length >= worthJumping;
    at = next;
  }
  offsets[records] = file.size;
  return { records, offsets: offsets.slice(0, records + 1) };
}

async function readAll(file: FormatFile, target: Uint8Array, position: number): Promise<number> {
  let filled = 0;
  while (filled < target.length) {
    const count = await file.read(target.subarray(filled), position + filled);
    if (count === 0)
      throw dataFileError(file.location, `the file ended at byte ${position + filled} while it was read.`);
    filled += count;
  }
  return filled;
}

function truncated(file: FormatFile, at: number): Error {
  return dataFileError(
    file.location,
    `the file ends inside the record at byte ${at}. It was not written or copied completely; write it again, or use onCorrupt: 'skip'.`,
  );
}
