// Which C library this Node was linked with: glibc (most distributions) or musl (Alpine). Addons for one do not load with the other. The
// answer is the name of the loader that the executable asks for, so nothing has to be started.

import { closeSync, openSync, readSync } from 'node:fs';

const interpreterSegment = 3;
const headerBytes = 64;

/** 'gnu' also where the executable names no loader. */
export function libcOfThisNode(executable: string = process.execPath): 'gnu' | 'musl' {
  return loaderOf(executable)?.includes('musl') === true ? 'musl' : 'gnu';
}

/** The program interpreter of an ELF executable of 64 bits, such as /lib64/ld-linux-x86-64.so.2. */
export function loaderOf(executable: string): string | undefined {
  let file: number;
  try {
    file = openSync(executable, 'r');
  } catch {
    return undefined;
  }
  try {
    const header = readAt(file, 0, headerBytes);
    if (header.subarray(0, 4).toString('latin1') !== '\x7fELF' || header[4] !== 2 || header[5] !== 1) {
      return undefined;
    }
    const entryBytes = header.readUInt16LE(54);
    const entries = readAt(file, Number(header.readBigUInt64LE(32)), entryBytes * header.readUInt16LE(56));
    for (let at = 0; at + entryBytes <= entries.length; at += entryBytes) {
      if (entries.readUInt32LE(at) !== interpreterSegment) continue;
      const offset = Number(entries.readBigUInt64LE(at + 8));
      const bytes = Number(entries.readBigUInt64LE(at + 32));
      return readAt(file, offset, Math.min(bytes, 4096)).toString('latin1').replace(/\0.*$/s, '');
    }
    return undefined;
  } catch {
    return undefined; // cut off, or not what it says
  } finally {
    closeSync(file);
  }
}

function readAt(file: number, position: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  return buffer.subarray(0, readSync(file, buffer, 0, bytes, position));
}
