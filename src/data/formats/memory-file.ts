// Bytes in memory as a file, for content that is there already: members of an archive, and tests.

import type { FormatFile } from './format.ts';

/** `maxRead`: a read gives at most as many bytes, as file systems may. */
export function memoryFile(
  location: string,
  content: Uint8Array,
  maxRead: number = Number.POSITIVE_INFINITY,
): FormatFile {
  return {
    location,
    size: content.length,
    async read(target, position) {
      const count = Math.max(0, Math.min(target.length, content.length - position, maxRead));
      target.set(content.subarray(position, position + count));
      return count;
    },
  };
}
