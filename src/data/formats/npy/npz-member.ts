// Members of .npz files, which are zip archives of .npy files: 'mnist.npz#x_train'. A stored member (np.savez) is a window of the
// archive; a compressed one (np.savez_compressed) is decompressed into memory.

import { inflateRaw } from 'node:zlib';
import { dataFileError, type FormatFile } from '../format.ts';
import { memoryFile } from '../memory-file.ts';

/** [path, member]; the member is undefined for a plain .npy file. */
export function splitMember(location: string): readonly [path: string, member: string | undefined] {
  const at = location.lastIndexOf('#');
  return at < 0 ? [location, undefined] : [location.slice(0, at), location.slice(at + 1)];
}

interface Entry {
  readonly name: string;
  readonly isStored: boolean;
  readonly packedBytes: number;
  readonly bytes: number;
  readonly headerAt: number;
}

const endSignature = 0x06054b50;
const end64Signature = 0x06064b50;
const entrySignature = 0x02014b50;
const localSignature = 0x04034b50;
const absent = 0xffffffff;

/** The names of the arrays, in the order of the archive. */
export async function npzMembers(file: FormatFile): Promise<string[]> {
  return (await readEntries(file)).map(({ name }) => name.replace(/\.npy$/, ''));
}

/** The member as a file: 'x_train' or 'x_train.npy'. */
export async function openNpzMember(file: FormatFile, member: string): Promise<FormatFile> {
  const entries = await readEntries(file);
  const entry = entries.find(({ name }) => name === `${member}.npy` || name === member);
  if (entry === undefined) {
    const names = entries.map(({ name }) => name.replace(/\.npy$/, '')).join(', ');
    throw dataFileError(
      file.location,
      `the archive has no array ${JSON.stringify(member)}. It has ${names}.`,
    );
  }
  const local = await readAt(file, entry.headerAt, 30);
  if (local.getUint32(0, true) !== localSignature) throw damaged(file);
  const start = entry.headerAt + 30 + local.getUint16(26, true) + local.getUint16(28, true);
  const location = `${file.location}#${member}`;
  // Deflate makes at most 1032 bytes of one; more is a lie, and memory for it would be asked for.
  const isPossible = entry.isStored
    ? entry.bytes === entry.packedBytes
    : entry.bytes <= 1032 * entry.packedBytes;
  if (start + entry.packedBytes > file.size || !isPossible) throw damaged(file);
  if (entry.isStored) {
    return {
      location,
      size: entry.bytes,
      read: (target, position) => {
        const wanted = Math.max(0, Math.min(target.length, entry.bytes - position));
        return file.read(target.subarray(0, wanted), start + position);
      },
    };
  }
  const packed = await readAt(file, start, entry.packedBytes);
  const content = await new Promise<Uint8Array>((resolve, reject) => {
    // A content longer than announced is an error.
    inflateRaw(packed, { maxOutputLength: entry.bytes + 1 }, (error, result) => {
      if (error === null && result.length === entry.bytes) resolve(result);
      else reject(damaged(file, error));
    });
  });
  return memoryFile(location, content);
}

async function readEntries(file: FormatFile): Promise<Entry[]> {
  // The record at the end of a zip has 22 bytes, and a comment of up to 65535.
  const tail = await readAt(file, Math.max(0, file.size - 65_557), Math.min(file.size, 65_557));
  let at = tail.byteLength - 22;
  while (at >= 0 && tail.getUint32(at, true) !== endSignature) at--;
  if (at < 0) throw dataFileError(file.location, 'this is not an .npz file (a zip archive).');
  let count = tail.getUint16(at + 10, true);
  let size = tail.getUint32(at + 12, true);
  let start = tail.getUint32(at + 16, true);
  if (start === absent || size === absent || count === 0xffff) {
    if (at < 20) throw damaged(file);
    const end64 = await readAt(file, Number(tail.getBigUint64(at - 12, true)), 56);
    if (end64.getUint32(0, true) !== end64Signature) throw damaged(file);
    count = Number(end64.getBigUint64(32, true));
    size = Number(end64.getBigUint64(40, true));
    start = Number(end64.getBigUint64(48, true));
  }
  if (start + size > file.size) throw damaged(file);
  const directory = await readAt(file, start, size);
  const entries: Entry[] = [];
  for (let place = 0; entries.length < count; ) {
    if (place + 46 > size || directory.getUint32(place, true) !== entrySignature) throw damaged(file);
    const [nameBytes, extraBytes, commentBytes] = [28, 30, 32].map((each) =>
      directory.getUint16(place + each, true),
    );
    const next = place + 46 + (nameBytes as number) + (extraBytes as number) + (commentBytes as number);
    if (next > size) throw damaged(file);
    entries.push(entryAt(directory, place, nameBytes as number, extraBytes as number, file));
    place = next;
  }
  return entries;
}

function entryAt(view: DataView, at: number, nameBytes: number, extraBytes: number, file: FormatFile): Entry {
  const method = view.getUint16(at + 10, true);
  const name = Buffer.from(view.buffer, view.byteOffset + at + 46, nameBytes).toString();
  if (method !== 0 && method !== 8)
    throw dataFileError(file.location, `${name} has the unknown compression ${method}.`);
  // Numbers that do not fit into 32 bits stand in an extra field, in this order.
  const wide = wideNumbers(view, at + 46 + nameBytes, extraBytes);
  const [bytes, packedBytes, headerAt] = [24, 20, 42].map((place) => {
    const value = view.getUint32(at + place, true);
    return value === absent ? (wide.shift() ?? value) : value;
  }) as [number, number, number];
  return { name, isStored: method === 0, packedBytes, bytes, headerAt };
}

function wideNumbers(view: DataView, start: number, length: number): number[] {
  const numbers: number[] = [];
  for (let at = start; at + 4 <= start + length; ) {
    const size = view.getUint16(at + 2, true);
    if (at + 4 + size > start + length) break;
    for (let i = 0; view.getUint16(at, true) === 1 && i + 8 <= size; i += 8) {
      numbers.push(Number(view.getBigUint64(at + 4 + i, true)));
    }
    at += 4 + size;
  }
  return numbers;
}

async function readAt(file: FormatFile, position: number, length: number): Promise<DataView> {
  if (position + length > file.size) throw damaged(file);
  const bytes = new Uint8Array(length);
  for (let filled = 0; filled < length; ) {
    const count = await file.read(bytes.subarray(filled), position + filled);
    if (count === 0) throw damaged(file);
    filled += count;
  }
  return new DataView(bytes.buffer);
}

function damaged(file: FormatFile, cause?: unknown): Error {
  return dataFileError(file.location, 'the .npz file is damaged or cut off. Write it again.', cause);
}
