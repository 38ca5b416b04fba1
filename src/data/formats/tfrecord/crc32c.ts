// CRC-32C (Castagnoli, reflected), the checksum of TFRecord, in JavaScript: sixteen tables take sixteen bytes at a time. The
// addon has a faster one (native/src/data/crc32c.cc) with the same results.

const polynomial = 0x82f63b78;
const slices = 16;

/** Table t at 256 · t: the effect of a byte that t more bytes follow. */
const tables = makeTables();

/** The checksum of bytes[start, end). */
export function crc32c(bytes: Uint8Array, start = 0, end: number = bytes.length): number {
  const t = tables;
  let crc = ~0;
  let at = start;
  for (const stop = end - slices; at <= stop; at += slices) {
    const first =
      crc ^
      (byte(bytes, at) |
        (byte(bytes, at + 1) << 8) |
        (byte(bytes, at + 2) << 16) |
        (byte(bytes, at + 3) << 24));
    crc =
      byte(t, 3840 + (first & 255)) ^
      byte(t, 3584 + ((first >>> 8) & 255)) ^
      byte(t, 3328 + ((first >>> 16) & 255)) ^
      byte(t, 3072 + (first >>> 24)) ^
      byte(t, 2816 + byte(bytes, at + 4)) ^
      byte(t, 2560 + byte(bytes, at + 5)) ^
      byte(t, 2304 + byte(bytes, at + 6)) ^
      byte(t, 2048 + byte(bytes, at + 7)) ^
      byte(t, 1792 + byte(bytes, at + 8)) ^
      byte(t, 1536 + byte(bytes, at + 9)) ^
      byte(t, 1280 + byte(bytes, at + 10)) ^
      byte(t, 1024 + byte(bytes, at + 11)) ^
      byte(t, 768 + byte(bytes, at + 12)) ^
      byte(t, 512 + byte(bytes, at + 13)) ^
      byte(t, 256 + byte(bytes, at + 14)) ^
      byte(t, byte(bytes, at + 15));
  }
  for (; at < end; at++) crc = byte(t, (crc ^ byte(bytes, at)) & 255) ^ (crc >>> 8);
  return ~crc >>> 0;
}

/** TFRecord stores checksums rotated and shifted by a constant, so that a checksum of data with checksums stays meaningful. */
export function maskCrc(crc: number): number {
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

function byte(array: Uint8Array | Uint32Array, at: number): number {
  return array[at] as number;
}

function makeTables(): Uint32Array {
  const made = new Uint32Array(256 * slices);
  for (let value = 0; value < 256; value++) {
    let crc = value;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1;
    made[value] = crc;
  }
  for (let at = 256; at < made.length; at++) {
    const before = byte(made, at - 256);
    made[at] = byte(made, before & 255) ^ (before >>> 8);
  }
  return made;
}
