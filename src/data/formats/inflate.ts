// Decompresses a file while it is read: gzip and zlib, by Node's own module, whose work runs beside this thread. The input is
// read ahead by as much as the decompressor asks for, and no more.

import { Readable } from 'node:stream';
import { createGunzip, createInflate } from 'node:zlib';
import { dataFileError, type FormatFile } from './format.ts';
import type { ByteStream } from './stream-blocks.ts';

export type Compression = 'none' | 'gzip' | 'zlib';

const inputBytes = 1 << 18;
/** Each piece costs a turn of the event loop: with 256 KiB, a fifth of the time. */
const outputBytes = 1 << 20;

/** By the first bytes. A plain TFRecord that looks like gzip would have a first record of more than 2^31 bytes. */
export async function detectCompression(file: FormatFile): Promise<Compression> {
  const head = new Uint8Array(Math.min(file.size, 12));
  const count = head.length === 0 ? 0 : await file.read(head, 0);
  return compressionOf(head.subarray(0, count));
}

/** `head` is the beginning of a file, 12 bytes if it has as many. */
export function compressionOf(head: Uint8Array): Compression {
  const [first = 0, second = 0, third = 0] = head;
  if (head.length >= 3 && first === 0x1f && second === 0x8b && third === 8) return 'gzip';
  // The header of zlib is a multiple of 31. A record of TFRecord has zeros where its length is above 2^32.
  const isZlib =
    head.length >= 2 && (first & 15) === 8 && first >> 4 <= 7 && (first * 256 + second) % 31 === 0;
  const isRecord = head.length >= 12 && head.subarray(4, 8).every((byte) => byte === 0);
  return isZlib && !isRecord ? 'zlib' : 'none';
}

export function inflatedStream(
  file: FormatFile,
  compression: 'gzip' | 'zlib',
  signal?: AbortSignal,
): ByteStream {
  const options = { chunkSize: outputBytes };
  const inflate = compression === 'gzip' ? createGunzip(options) : createInflate(options);
  const input = Readable.from(piecesOf(file, signal), { objectMode: false, highWaterMark: inputBytes });
  input.on('error', (error) => inflate.destroy(error));
  input.pipe(inflate);
  const output = inflate[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let piece: Uint8Array = new Uint8Array(0);
  return {
    async read(target) {
      while (piece.length === 0) {
        const next = await output.next().catch((error: unknown) => {
          throw describe(file.location, compression, error);
        });
        if (next.done) return 0;
        piece = next.value;
      }
      const count = Math.min(piece.length, target.length);
      target.set(piece.subarray(0, count));
      piece = piece.subarray(count);
      return count;
    },
    async close() {
      input.unpipe(inflate);
      input.destroy();
      inflate.destroy();
      await output.return?.();
    },
  };
}

async function* piecesOf(file: FormatFile, signal?: AbortSignal): AsyncGenerator<Uint8Array, void, void> {
  for (let position = 0; position < file.size; ) {
    signal?.throwIfAborted();
    const piece = new Uint8Array(Math.min(inputBytes, file.size - position));
    const count = await file.read(piece, position);
    if (count === 0)
      throw dataFileError(
        file.location,
        `the file ended at byte ${position} of ${file.size} while it was read.`,
      );
    position += count;
    yield piece.subarray(0, count);
  }
}

function describe(location: string, compression: string, error: unknown): unknown {
  const { code, message } = error as { code?: string; message: string };
  if (typeof code !== 'string' || !(code.startsWith('Z_') || code.startsWith('ERR_BUFFER'))) return error;
  const what = code === 'Z_BUF_ERROR' ? 'the file ends too early' : message;
  return dataFileError(
    location,
    `the ${compression} data is damaged (${what}). Copy or write the file again.`,
    error,
  );
}
