// Files beside a data file that say where its records are: our own, `<file>.hvdidx`, and DALI's `<file>.idx` (lines of offset
// and bytes). Ours also says of which version of the data file it speaks; an index of another version is not used. It is
//
//   'hvdidx1\n' · varints: size, modified (ms; 0: unknown), bytes of the ETag · the ETag · varints: 1 if records can be
//   addressed else 0, records, bytes of each record with its framing · CRC-32C of all that (4 bytes, little endian)

import { dataFileError, type FileIndex } from '../format.ts';
import { crc32c } from './crc32c.ts';

/** What tells one version of a file from another. */
export interface FileVersion {
  readonly size: number;
  readonly modifiedMs?: number | undefined;
  readonly etag?: string | undefined;
}

const magic: Uint8Array = new TextEncoder().encode('hvdidx1\n');

export function indexFileLocation(location: string): string {
  return `${location}.hvdidx`;
}

/**
 * The index from a file beside the data file, or undefined if there is none that fits. `readFile` resolves to undefined for
 * a file that is not there. DALI writes `name.idx` beside `name.tfrecord` by hand of its user: both ways of naming are tried.
 */
export async function findIndex(
  location: string,
  version: FileVersion,
  readFile: (location: string) => Promise<Uint8Array | undefined>,
): Promise<FileIndex | undefined> {
  const own = await readFile(indexFileLocation(location));
  if (own !== undefined) {
    const { index, version: described } = decodeIndex(own, indexFileLocation(location));
    if (isSameVersion(version, described)) return index;
  }
  for (const name of [`${location}.idx`, location.replace(/\.[^./]+$/, '.idx')]) {
    const bytes = name === location ? undefined : await readFile(name);
    if (bytes === undefined) continue;
    const index = parseDaliIndex(new TextDecoder().decode(bytes), version.size);
    if (index !== undefined) return index;
  }
  return undefined;
}

/** Sizes must be equal, and ETags or else times where both sides know them. */
export function isSameVersion(a: FileVersion, b: FileVersion): boolean {
  if (a.size !== b.size) return false;
  if (a.etag !== undefined && b.etag !== undefined) return a.etag === b.etag;
  if (a.modifiedMs === undefined || b.modifiedMs === undefined) return true;
  return Math.floor(a.modifiedMs) === Math.floor(b.modifiedMs);
}

export function encodeIndex(index: FileIndex, version: FileVersion): Uint8Array {
  const { records, offsets } = index;
  const etag = new TextEncoder().encode(version.etag ?? '');
  const target = new Uint8Array(magic.length + 60 + etag.length + (offsets === null ? 0 : 8 * records));
  target.set(magic);
  let at = magic.length;
  const varint = (value: number) => {
    let rest = value;
    for (; rest >= 128; rest = Math.floor(rest / 128)) target[at++] = (rest % 128) + 128;
    target[at++] = rest;
  };
  varint(version.size);
  varint(Math.floor(version.modifiedMs ?? 0));
  varint(etag.length);
  target.set(etag, at);
  at += etag.length;
  varint(offsets === null ? 0 : 1);
  varint(records);
  for (let i = 0; offsets !== null && i < records; i++) {
    varint((offsets[i + 1] as number) - (offsets[i] as number));
  }
  new DataView(target.buffer).setUint32(at, crc32c(target, 0, at), true);
  return target.subarray(0, at + 4);
}

export function decodeIndex(bytes: Uint8Array, location: string): { index: FileIndex; version: FileVersion } {
  const damaged = (what: string) =>
    dataFileError(location, `the index is damaged (${what}). Delete it; it is made again when needed.`);
  const end = bytes.length - 4;
  if (end < magic.length || magic.some((byte, at) => bytes[at] !== byte))
    throw damaged('it begins differently');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(end, true) !== crc32c(bytes, 0, end)) throw damaged('its checksum does not match');
  let at = magic.length;
  const varint = () => {
    let value = 0;
    for (let scale = 1; at < end && scale <= 2 ** 49; scale *= 128) {
      const byte = bytes[at++] as number;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    throw damaged('a number is not whole');
  };
  const size = varint();
  const modifiedMs = varint();
  const etagBytes = varint();
  const etag = new TextDecoder().decode(bytes.subarray(at, at + etagBytes));
  at += etagBytes;
  const isAddressable = varint() === 1;
  const records = varint();
  const version: FileVersion = {
    size,
    modifiedMs: modifiedMs === 0 ? undefined : modifiedMs,
    etag: etagBytes === 0 ? undefined : etag,
  };
  if (!isAddressable) return { index: { records, offsets: null }, version };
  if (records > end - at) throw damaged('records are missing');
  const offsets = new Float64Array(records + 1);
  for (let i = 0; i < records; i++) offsets[i + 1] = (offsets[i] as number) + varint();
  if (offsets[records] !== size || at !== end) throw damaged('its records do not fill the file');
  return { index: { records, offsets }, version };
}

/** Undefined if the lines do not describe a file of this size from its beginning to its end. */
export function parseDaliIndex(text: string, size: number): FileIndex | undefined {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const offsets = new Float64Array(lines.length + 1);
  for (const [i, line] of lines.entries()) {
    const [offset = Number.NaN, bytes = Number.NaN] = line.trim().split(/\s+/).map(Number);
    if (offset !== offsets[i] || !(bytes >= 16)) return undefined;
    offsets[i + 1] = offset + bytes;
  }
  return offsets[lines.length] === size ? { records: lines.length, offsets } : undefined;
}
