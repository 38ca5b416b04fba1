// Reading ahead: several pieces of a file are on their way at once, because a server answers each only after a while. One form
// fills memory of the caller, the other gives the pieces one after the other.

import type { FileWaitOptions, ReadHandle } from './file-system.ts';

export interface ReadAheadOptions extends FileWaitOptions {
  /** Default: 8 MiB. */
  readonly pieceBytes?: number | undefined;
  /** Pieces on their way at a time. Default: 4. A sequential file has one. */
  readonly inFlight?: number | undefined;
  /** Where to begin. Default: 0. */
  readonly from?: number | undefined;
  /** Where to end. Default: the end of the file. */
  readonly to?: number | undefined;
}

export const defaultPieceBytes: number = 8 * 2 ** 20;
const defaultInFlight = 4;

/** Fills the target with calls of `readPiece`, a few at a time. Resolves to the number of bytes up to the first short piece. */
export async function readInPieces(
  target: Uint8Array,
  position: number,
  readPiece: (target: Uint8Array, position: number) => Promise<number>,
  pieceBytes: number = defaultPieceBytes,
  inFlight: number = defaultInFlight,
): Promise<number> {
  const count = Math.ceil(target.byteLength / pieceBytes);
  const lengths: number[] = [];
  let next = 0;
  const reader = async () => {
    while (next < count) {
      const piece = next++;
      const begin = piece * pieceBytes;
      const part = target.subarray(begin, begin + pieceBytes);
      try {
        lengths[piece] = await readPiece(part, position + begin);
      } catch (error) {
        next = count;
        throw error;
      }
      if (lengths[piece] < part.byteLength) next = count;
    }
  };
  const results = await Promise.allSettled(Array.from({ length: Math.min(inFlight, count) }, reader));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  let done = 0;
  for (let piece = 0; piece < count; piece++) {
    const length = lengths[piece] ?? 0;
    done += length;
    if (length < Math.min(pieceBytes, target.byteLength - piece * pieceBytes)) break;
  }
  return done;
}

/** The pieces of a file in order. Each is memory of its own. Returning early waits for what is on its way. */
export async function* readAhead(
  file: ReadHandle,
  options: ReadAheadOptions = {},
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
  const { pieceBytes = defaultPieceBytes, from = 0, to = file.size, signal } = options;
  const inFlight = file.isSequential ? 1 : (options.inFlight ?? defaultInFlight);
  const started: Promise<Uint8Array<ArrayBuffer>>[] = [];
  const start = (position: number) => {
    const piece = readOne(file, position, Math.min(pieceBytes, to - position), signal);
    // It is awaited later, or given up.
    piece.catch(() => undefined);
    started.push(piece);
  };
  let position = from;
  try {
    while (position < to || started.length > 0) {
      while (position < to && started.length < inFlight) {
        start(position);
        position += pieceBytes;
      }
      const piece = await (started.shift() as Promise<Uint8Array<ArrayBuffer>>);
      if (piece.byteLength > 0) yield piece;
    }
  } finally {
    await Promise.allSettled(started);
  }
}

async function readOne(
  file: ReadHandle,
  position: number,
  length: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  const piece = new Uint8Array(length);
  const count = await file.read(piece, position, { signal });
  return piece.subarray(0, count);
}
