// Files that appear whole or not at all: written under a passing name in the same folder, made durable, then renamed over what
// was there. A process that is killed leaves the old file, and possibly a file whose name ends in .tmp.

import { randomUUID } from 'node:crypto';
import type { FileSystem, FileWaitOptions, WriteHandle } from './file-system.ts';
import { folderOf, joinLocation, locationOf, nameOf } from './location.ts';
import type { Files } from './registry.ts';

export interface AtomicWriteOptions extends FileWaitOptions {
  /** Default: true, a file of that name is replaced. */
  readonly overwrite?: boolean | undefined;
  /** Mode bits, also of the passing file, which nobody else can have made. */
  readonly permission?: number | undefined;
  /** Called with the number of bytes written so far. */
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

const pieceBytes = 16 * 2 ** 20;

/** Writes a whole file. */
export async function writeFileAtomically(
  files: Files,
  location: string | URL,
  content: Uint8Array | string,
  options: AtomicWriteOptions = {},
): Promise<void> {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  await using file = await createAtomically(files, location, options);
  for (let done = 0; done < bytes.byteLength; ) {
    const piece = bytes.subarray(done, done + pieceBytes);
    await file.write(piece);
    done += piece.byteLength;
    options.onProgress?.(done);
  }
  await file.close();
}

/** A file that has its name when close() resolves. abort(), or disposing the handle before close(), leaves nothing. */
export async function createAtomically(
  files: Files,
  location: string | URL,
  { overwrite = true, permission, signal }: AtomicWriteOptions = {},
): Promise<WriteHandle> {
  const target = locationOf(location);
  const fileSystem = await files.fileSystem(target);
  // Begins with a dot: readers and patterns pass over it.
  const name = `.${nameOf(target)}.${randomUUID().slice(0, 8)}.tmp`;
  const passing = joinLocation(folderOf(target), name);
  const file = await fileSystem.create(passing, { permission, signal });
  return new AtomicWriteHandle(fileSystem, file, target, { overwrite, signal });
}

class AtomicWriteHandle implements WriteHandle {
  readonly location: string;
  readonly #fileSystem: FileSystem;
  readonly #file: WriteHandle;
  readonly #options: AtomicWriteOptions;
  #isOpen = true;

  constructor(fileSystem: FileSystem, file: WriteHandle, target: string, options: AtomicWriteOptions) {
    this.#fileSystem = fileSystem;
    this.#file = file;
    this.location = target;
    this.#options = options;
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#file.write(bytes);
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    await this.#file.close();
    this.#isOpen = false;
    try {
      await this.#fileSystem.rename(this.#file.location, this.location, this.#options);
    } catch (error) {
      await this.#removePassing();
      throw error;
    }
  }

  async abort(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#file.abort();
    await this.#removePassing();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.abort();
  }

  /** The error that matters is the first one. */
  async #removePassing(): Promise<void> {
    await this.#fileSystem.remove(this.#file.location).catch(() => undefined);
  }
}
