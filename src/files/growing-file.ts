// A file that grows while others read it: a log, an event file. On this machine each piece is in the file when append() resolves. On
// a server each append costs several requests, so pieces are collected: for 10 s, or until there is a megabyte. A file system that
// cannot append gets the whole file again.

import { writeFileAtomically } from './atomic-write.ts';
import type { FileSystem } from './file-system.ts';
import { isLocal, locationOf } from './location.ts';
import type { Files } from './registry.ts';

export interface GrowingFileOptions {
  /** How long pieces are collected. Default: 10 s; 0 on this machine. */
  readonly everyMs?: number | undefined;
  /** How many bytes are collected. Default: 1 MiB. */
  readonly everyBytes?: number | undefined;
}

export class GrowingFile {
  readonly location: string;
  readonly #files: Files;
  readonly #fileSystem: FileSystem;
  readonly #everyMs: number;
  readonly #everyBytes: number;
  /** For a file system that cannot append: all there is. */
  #content: Uint8Array[] = [];
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #last: Promise<void> = Promise.resolve();
  #failure: { readonly error: unknown } | undefined;

  private constructor(files: Files, fileSystem: FileSystem, location: string, options: GrowingFileOptions) {
    this.location = location;
    this.#files = files;
    this.#fileSystem = fileSystem;
    this.#everyMs = options.everyMs ?? (isLocal(location) ? 0 : 10_000);
    this.#everyBytes = options.everyBytes ?? 2 ** 20;
  }

  /** A new file that begins with these bytes. An existing one is an error. */
  static async create(
    files: Files,
    location: string | URL,
    first: Uint8Array,
    options: GrowingFileOptions = {},
  ): Promise<GrowingFile> {
    const place = locationOf(location);
    const fileSystem = await files.fileSystem(place);
    const growing = new GrowingFile(files, fileSystem, place, options);
    await using file = await fileSystem.create(place);
    await file.write(first);
    await file.close();
    if (fileSystem.append === undefined) growing.#content.push(Buffer.from(first));
    return growing;
  }

  /** Rejects with the failure of an earlier flush, too: nobody waits for those of the timer. */
  async append(bytes: Uint8Array): Promise<void> {
    this.#throwFailure();
    this.#held.push(Buffer.from(bytes));
    this.#heldBytes += bytes.byteLength;
    if (this.#everyMs === 0 || this.#heldBytes >= this.#everyBytes) return this.flush();
    // Not unref'd: a program that ends by itself loses nothing.
    this.#timer ??= setTimeout(() => {
      this.flush().catch((error: unknown) => {
        this.#failure ??= { error };
      });
    }, this.#everyMs);
  }

  /** What was appended before is in the file when it resolves. */
  async flush(): Promise<void> {
    this.#throwFailure();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const bytes = Buffer.concat(this.#held);
    this.#held = [];
    this.#heldBytes = 0;
    const flushed = this.#last.then(() => (bytes.byteLength === 0 ? undefined : this.#write(bytes)));
    this.#last = flushed.catch(() => undefined);
    await flushed;
  }

  async #write(bytes: Uint8Array): Promise<void> {
    if (this.#fileSystem.append !== undefined) return this.#fileSystem.append(this.location, bytes);
    this.#content.push(bytes);
    const whole = Buffer.concat(this.#content);
    this.#content = [whole];
    await writeFileAtomically(this.#files, this.location, whole);
  }

  #throwFailure(): void {
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure.error;
  }
}
