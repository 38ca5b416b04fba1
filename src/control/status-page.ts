// The status page of a rank in a control block: a small text that its rank writes over now and then, and that others
// read at any time, without a lock. A page goes out in one write. A reader that comes in the middle of it, or after a
// writer that was killed there, finds a checksum that does not fit: it looks again, and then gives up without an error.
//
// Layout, little-endian: 0 u32 sequence (counts the writes; 0: never written)  4 u32 bytes of text  8 u32 checksum of
// sequence and text  16… text

import { readSync, writeSync } from 'node:fs';

export const statusPageLayout = { sequence: 0, textBytes: 4, checksum: 8, text: 16 } as const;

export interface StatusPage {
  /** Another number than at the last look: it has been written since. */
  readonly sequence: number;
  readonly text: string;
}

/** Looks at a page that is being written; each look comes some microseconds after the last. */
const looks = 4;

export function writeStatusPage(fd: number, position: number, sequence: number, text: Buffer): void {
  const { text: textAt } = statusPageLayout;
  const page = Buffer.allocUnsafe(textAt + text.length);
  page.fill(0, 0, textAt);
  page.writeUInt32LE(sequence >>> 0, statusPageLayout.sequence);
  page.writeUInt32LE(text.length, statusPageLayout.textBytes);
  page.writeUInt32LE(checksumOf(sequence, text), statusPageLayout.checksum);
  text.copy(page, textAt);
  writeSync(fd, page, 0, page.length, position);
}

/** Undefined: never written, or torn. */
export function readStatusPage(fd: number, position: number, pageBytes: number): StatusPage | undefined {
  const page = Buffer.allocUnsafe(pageBytes);
  for (let look = 0; look < looks; look++) {
    const bytes = readSync(fd, page, 0, pageBytes, position);
    if (bytes < statusPageLayout.text) return undefined;
    const sequence = page.readUInt32LE(statusPageLayout.sequence);
    if (sequence === 0) return undefined;
    const length = page.readUInt32LE(statusPageLayout.textBytes);
    if (length > bytes - statusPageLayout.text) continue;
    const text = page.subarray(statusPageLayout.text, statusPageLayout.text + length);
    if (checksumOf(sequence, text) === page.readUInt32LE(statusPageLayout.checksum)) {
      return { sequence, text: text.toString('utf8') };
    }
  }
  return undefined;
}

/** FNV-1a. */
function checksumOf(sequence: number, text: Buffer): number {
  let hash = Math.imul(0x811c9dc5 ^ sequence, 0x01000193);
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ (text[i] as number), 0x01000193);
  return hash >>> 0;
}
