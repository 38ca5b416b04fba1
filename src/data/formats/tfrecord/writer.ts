// Writes TFRecord files. A file has its name when close() resolves, whole, or never: it is written under a passing name. Records
// are collected in pieces of a megabyte, so that one write serves many of them; compression runs beside this thread.

import { once } from 'node:events';
import { createDeflate, createGzip, type Deflate, type Gzip } from 'node:zlib';
import { HorovodError } from '../../../errors.ts';
import { createAtomically, writeFileAtomically } from '../../../files/atomic-write.ts';
import type { WriteHandle } from '../../../files/file-system.ts';
import { locationOf } from '../../../files/location.ts';
import { statusOf } from '../../../files/read-file.ts';
import type { Files } from '../../../files/registry.ts';
import { describe } from '../../../tensor/tensor.ts';
import { type ExampleInputs, encodeExample } from '../example/encode.ts';
import type { Compression } from '../inflate.ts';
import { finishRecord } from './framing.ts';
import { encodeIndex, indexFileLocation } from './index-file.ts';
import { framingBytes, headerBytes, portableRecordKernels, type RecordKernels } from './record-kernels.ts';

export interface TfRecordWriterOptions {
  /** Default 'none'. */
  readonly compression?: Compression | undefined;
  /** Also write `<path>.hvdidx`, which spares readers a scan of the file. Default true. */
  readonly index?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface WriterParts {
  readonly files: Files;
  readonly kernels?: RecordKernels | undefined;
}

const pieceBytes = 1 << 20;

/** The file that a RecordWriter writes to. */
export function createRecordFile(
  location: string | URL,
  { compression = 'none', signal }: TfRecordWriterOptions,
  { files }: WriterParts,
): Promise<WriteHandle> {
  if (!['none', 'gzip', 'zlib'].includes(compression)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `TfRecordWriter: compression is 'none', 'gzip' or 'zlib', not ${describe(compression)}.`,
    );
  }
  return createAtomically(files, locationOf(location), { signal });
}

export class RecordWriter implements AsyncDisposable {
  readonly location: string;
  readonly #files: Files;
  readonly #kernels: RecordKernels;
  readonly #file: WriteHandle;
  readonly #deflate: Gzip | Deflate | undefined;
  readonly #options: TfRecordWriterOptions;
  /** The compressed output on its way into the file. */
  readonly #output: Promise<void> | undefined;
  #piece = new Uint8Array(pieceBytes);
  #filled = 0;
  #offsets = new Float64Array(1024);
  #records = 0;
  #state: 'open' | 'closing' | 'closed' = 'open';
  #failure: unknown;
  /** Writes follow one another. */
  #last: Promise<void> = Promise.resolve();

  constructor(file: WriteHandle, parts: WriterParts, options: TfRecordWriterOptions) {
    const { compression = 'none' } = options;
    this.location = file.location;
    this.#file = file;
    this.#files = parts.files;
    this.#kernels = parts.kernels ?? portableRecordKernels;
    this.#options = options;
    if (compression !== 'none') {
      this.#deflate = compression === 'gzip' ? createGzip() : createDeflate();
      this.#output = this.#pump(this.#deflate);
      this.#output.catch((error: unknown) => {
        this.#failure ??= error;
        this.#deflate?.destroy(error as Error);
      });
    }
  }

  /** Records written so far. */
  get records(): number {
    return this.#records;
  }

  /** The bytes may be used again at once. Waits only when a piece is full. */
  async write(record: Uint8Array): Promise<void> {
    if (!(record instanceof Uint8Array)) {
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        `TfRecordWriter: write() takes a Uint8Array, not ${describe(record)}. For values use writeExample().`,
      );
    }
    this.#check();
    const bytes = record.length + framingBytes;
    if (this.#filled + bytes > this.#piece.length) {
      const full = this.#takePiece(bytes);
      if (full.length > 0) this.#last = this.#last.then(() => this.#send(full));
    }
    this.#piece.set(record, this.#filled + headerBytes);
    finishRecord(this.#piece, this.#filled, record.length, this.#kernels);
    this.#filled += bytes;
    if (this.#records + 2 > this.#offsets.length) {
      const longer = new Float64Array(2 * this.#offsets.length);
      longer.set(this.#offsets);
      this.#offsets = longer;
    }
    this.#records++;
    this.#offsets[this.#records] = (this.#offsets[this.#records - 1] as number) + bytes;
    await this.#last;
  }

  /** A record that is a tf.train.Example. */
  writeExample(values: ExampleInputs): Promise<void> {
    return this.write(encodeExample(values));
  }

  /** The file has its name, and its index is beside it, when it resolves. */
  async close(): Promise<void> {
    if (this.#state === 'closed') return;
    this.#check();
    this.#state = 'closing';
    try {
      await this.#last;
      await this.#send(this.#piece.subarray(0, this.#filled));
      this.#deflate?.end();
      await this.#output;
      await this.#file.close();
    } catch (error) {
      await this.abort();
      throw error;
    }
    this.#state = 'closed';
    if (this.#options.index ?? true) await this.#writeIndex();
  }

  /** Gives the file up; nothing of it stays. After close() it does nothing. */
  async abort(): Promise<void> {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#deflate?.destroy();
    await this.#last.catch(() => undefined);
    await this.#output?.catch(() => undefined);
    await this.#file.abort();
  }

  /** As abort(): a block that was left by an error before close() leaves no file. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.abort();
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#state === 'open') return;
    throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `TfRecordWriter: ${this.location} is already closed.`);
  }

  /** What was collected; the next piece has room for at least `bytes`. */
  #takePiece(bytes: number): Uint8Array {
    const full = this.#piece.subarray(0, this.#filled);
    this.#piece = new Uint8Array(Math.max(pieceBytes, bytes));
    this.#filled = 0;
    return full;
  }

  async #send(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return;
    try {
      if (this.#deflate === undefined) await this.#file.write(bytes);
      else if (!this.#deflate.write(bytes)) await once(this.#deflate, 'drain');
    } catch (error) {
      this.#failure ??= error;
      throw this.#failure;
    }
  }

  async #pump(output: AsyncIterable<Buffer>): Promise<void> {
    for await (const piece of output) await this.#file.write(piece);
  }

  async #writeIndex(): Promise<void> {
    const status = await statusOf(this.#files, this.location);
    if (status === undefined) return;
    const offsets = this.#deflate === undefined ? this.#offsets.slice(0, this.#records + 1) : null;
    const content = encodeIndex({ records: this.#records, offsets }, status);
    await writeFileAtomically(this.#files, indexFileLocation(this.location), content);
  }
}
