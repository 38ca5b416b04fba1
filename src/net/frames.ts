// Frames: how messages are cut out of a stream of bytes. A frame is four bytes of length, big-endian, and a body. Stores,
// host watches and agents each put messages of a type they define, and check, into the bodies. On connections of the
// network the bodies are authenticated as well (sealed-frames.ts).

/** Thrown for bytes that are no frame, or no message of the reader's protocol. The connection is of no use any more. */
export class ProtocolError extends Error {}

const headBytes = 4;

export function encodeFrame(body: Uint8Array | string, maxBytes: number): Buffer {
  const length = Buffer.byteLength(body);
  if (length > maxBytes) throw new ProtocolError(`a message of ${length} bytes is longer than ${maxBytes}`);
  const frame = Buffer.allocUnsafe(headBytes + length);
  frame.writeUInt32BE(length);
  if (typeof body === 'string') frame.write(body, headBytes);
  else frame.set(body, headBytes);
  return frame;
}

/** Cuts a stream, in whatever pieces it comes, into the bodies of frames. */
export class FrameReader {
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  #bytes = 0;
  /** Pieces are joined when this many bytes are there: joining each time would cost the square of a frame's length. */
  #wanted = headBytes;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** No frame has come in part. */
  get isEmpty(): boolean {
    return this.#bytes === 0;
  }

  /** A length beyond the limit throws before any byte of that frame is kept. Bodies may share memory with `piece`. */
  push(piece: Buffer): Buffer[] {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    const bodies: Buffer[] = [];
    while (this.#bytes >= this.#wanted) {
      const joined = this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces);
      const length = joined.readUInt32BE(0);
      if (length === 0 || length > this.#maxBytes) throw new ProtocolError(`a frame of ${length} bytes`);
      const end = headBytes + length;
      const isWhole = joined.length >= end;
      if (isWhole) bodies.push(joined.subarray(headBytes, end));
      const rest = isWhole ? joined.subarray(end) : joined;
      this.#pieces = [rest];
      this.#bytes = rest.length;
      this.#wanted = isWhole ? headBytes : end;
    }
    return bodies;
  }
}

/** The JSON object in a body. */
export function parseObject(body: Buffer): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(body.toString('utf8'));
  } catch {
    throw new ProtocolError('a message that is not JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ProtocolError('a message that is not an object');
  }
  return value as Record<string, unknown>;
}

/** What each field of a message has to be. */
export type Fields = Readonly<Record<string, (value: unknown) => boolean>>;

/** Does `message` have these fields, and none besides `others`? */
export function hasFields(
  message: Record<string, unknown>,
  fields: Fields,
  others: readonly string[],
): boolean {
  return (
    Object.entries(fields).every(([name, check]) => check(message[name])) &&
    Object.keys(message).every((name) => Object.hasOwn(fields, name) || others.includes(name))
  );
}

export function isText(value: unknown): value is string {
  return typeof value === 'string';
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
