// Reads a whole file, in pieces, and a few short forms for what callers ask most often.

import { type FileStatus, type FileWaitOptions, fileError, problemOf } from './file-system.ts';
import { locationOf } from './location.ts';
import type { Files } from './registry.ts';

export interface ReadFileOptions extends FileWaitOptions {
  /** Called with the number of bytes read so far, and the size of the file. */
  readonly onProgress?: ((bytes: number, size: number) => void) | undefined;
  /** A larger file is an error. */
  readonly maxBytes?: number | undefined;
}

const pieceBytes = 16 * 2 ** 20;

/** A file that becomes shorter while it is read ends where it ends. */
export async function readFile(
  files: Files,
  location: string | URL,
  { signal, onProgress, maxBytes = Number.POSITIVE_INFINITY }: ReadFileOptions = {},
): Promise<Uint8Array<ArrayBuffer>> {
  const place = locationOf(location);
  await using file = await (await files.fileSystem(place)).open(place, { signal });
  if (file.size > maxBytes) {
    throw fileError(`${place} has ${file.size} bytes; at most ${maxBytes} were expected.`);
  }
  const content = new Uint8Array(file.size);
  let done = 0;
  while (done < content.byteLength) {
    const count = await file.read(content.subarray(done, done + pieceBytes), done, { signal });
    if (count === 0) return content.subarray(0, done);
    done += count;
    onProgress?.(done, file.size);
  }
  return content;
}

export async function readTextFile(
  files: Files,
  location: string | URL,
  options: ReadFileOptions = {},
): Promise<string> {
  return new TextDecoder().decode(await readFile(files, location, options));
}

/** Undefined if there is nothing. */
export async function statusOf(
  files: Files,
  location: string | URL,
  options: FileWaitOptions = {},
): Promise<FileStatus | undefined> {
  const place = locationOf(location);
  try {
    return await (await files.fileSystem(place)).stat(place, options);
  } catch (error) {
    if (['missing', 'not a folder'].includes(problemOf(error) ?? '')) return undefined;
    throw error;
  }
}
