// One record of a TFRecord file as bytes: length (8), checksum of the length (4), data, checksum of the data (4), little
// endian. TensorBoard's event files are framed the same way.

import { maskCrc } from './crc32c.ts';
import { framingBytes, headerBytes, portableRecordKernels, type RecordKernels } from './record-kernels.ts';

/** One record, ready to be appended to a file. */
export function frameRecord(data: Uint8Array, kernels: RecordKernels = portableRecordKernels): Uint8Array {
  const record = new Uint8Array(data.length + framingBytes);
  record.set(data, headerBytes);
  finishRecord(record, 0, data.length, kernels);
  return record;
}

/** Writes length and checksums around data that is in place already, `headerBytes` behind `at`. */
export function finishRecord(target: Uint8Array, at: number, length: number, kernels: RecordKernels): void {
  const view = new DataView(target.buffer, target.byteOffset, target.byteLength);
  view.setUint32(at, length, true);
  view.setUint32(at + 4, Math.floor(length / 2 ** 32), true);
  view.setUint32(at + 8, maskCrc(kernels.crc32c(target, at, at + 8)), true);
  const start = at + headerBytes;
  view.setUint32(start + length, maskCrc(kernels.crc32c(target, start, start + length)), true);
}
