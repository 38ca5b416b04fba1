// The loops over records of TFRecord files, and their JavaScript form, which defines the results. The addon has the same two
// functions (native/src/data/record-scan.h). A record is: length (8 bytes), checksum of the length (4), data, checksum of
// the data (4), all little endian.

import { crc32c, maskCrc } from './crc32c.ts';

export const headerBytes = 12;
export const framingBytes = 16;
/** Longer records are rejected: no typed array of a block could hold them together with others. */
export const maxRecordBytes: number = 2 ** 31 - 1;

/** Why scanRecords() has stopped. */
export const scanProblem = { none: 0, lengthChecksum: 1, dataChecksum: 2, tooLong: 3 } as const;

/** Places in the report of scanRecords(). */
export const scanReport = { consumed: 0, needed: 1, problem: 2, length: 3 } as const;

export interface RecordKernels {
  /** Of bytes[start, end), not masked. */
  crc32c(bytes: Uint8Array, start: number, end: number): number;
  /**
   * Finds whole records in chunk[from, …) until the lists are full, the chunk ends or something is wrong, and returns how
   * many there are. `starts` and `lengths` are the places of their data. The report says where the first byte is that
   * belongs to none of them, how many bytes the record there needs (0: not known or the lists were full), what is wrong
   * with it, and how long its data is. The checksum of the length is always verified, that of the data if `checksData`.
   */
  scanRecords(
    chunk: Uint8Array,
    from: number,
    checksData: boolean,
    starts: Uint32Array,
    lengths: Uint32Array,
    report: Float64Array,
  ): number;
}

export const portableRecordKernels: RecordKernels = {
  crc32c,

  scanRecords(chunk, from, checksData, starts, lengths, report) {
    const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const capacity = Math.min(starts.length, lengths.length);
    let at = from;
    let count = 0;
    let needed = 0;
    let problem: number = scanProblem.none;
    let length = 0;
    while (count < capacity) {
      if (chunk.length - at < headerBytes) {
        needed = framingBytes;
        break;
      }
      length = view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
      if (view.getUint32(at + 8, true) !== maskCrc(crc32c(chunk, at, at + 8))) {
        problem = scanProblem.lengthChecksum;
        break;
      }
      if (length > maxRecordBytes) {
        problem = scanProblem.tooLong;
        break;
      }
      if (chunk.length - at < length + framingBytes) {
        needed = length + framingBytes;
        break;
      }
      const start = at + headerBytes;
      if (
        checksData &&
        view.getUint32(start + length, true) !== maskCrc(crc32c(chunk, start, start + length))
      ) {
        problem = scanProblem.dataChecksum;
        break;
      }
      starts[count] = start;
      lengths[count++] = length;
      at = start + length + 4;
    }
    report[scanReport.consumed] = at;
    report[scanReport.needed] = needed;
    report[scanReport.problem] = problem;
    report[scanReport.length] = length;
    return count;
  },
};
