// Frames on an authenticated connection: four bytes of length, then JSON of a fixed schema. Lengths are checked
// before anything is kept, and a message with an unknown or missing field is no message.

import { type ErrorCode, errorCodes } from '../errors.ts';

export const longestFrameBytes: number = 64 * 1024;
export const longestKey = 256;

export type Request =
  | { readonly op: 'set'; readonly id: number; readonly key: string; readonly value: string }
  | { readonly op: 'get'; readonly id: number; readonly key: string; readonly from?: number }
  /** The caller of the get `id` waits no longer. */
  | { readonly op: 'cancel'; readonly id: number }
  /** The caller closes its store: the end of the connection is no loss. */
  | { readonly op: 'leave'; readonly id: number };

export interface StoreFailure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly rank?: number;
  readonly pid?: number;
  readonly signal?: string;
  readonly exitCode?: number;
}

export type Response =
  | { readonly op: 'value'; readonly id: number; readonly value: string }
  | { readonly op: 'done'; readonly id: number }
  | { readonly op: 'failed'; readonly id: number; readonly failure: StoreFailure };

/** Thrown for bytes that are no frame or no message; the connection is of no use any more. */
export class ProtocolError extends Error {}

export function encodeFrame(message: Request | Response): Buffer {
  const body = Buffer.from(JSON.stringify(message));
  if (body.length > longestFrameBytes) {
    throw new ProtocolError(`a message of ${body.length} bytes is longer than ${longestFrameBytes}`);
  }
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
}

/** Cuts a stream of bytes, in whatever pieces it comes, into the texts of frames. */
export class FrameReader {
  #pieces: Buffer[] = [];
  #bytes = 0;

  push(piece: Buffer): string[] {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    const texts: string[] = [];
    for (;;) {
      if (this.#bytes < 4) return texts;
      const head = this.#join();
      const length = head.readUInt32BE(0);
      if (length === 0 || length > longestFrameBytes) throw new ProtocolError(`a frame of ${length} bytes`);
      if (head.length < 4 + length) return texts;
      texts.push(head.toString('utf8', 4, 4 + length));
      this.#pieces = [head.subarray(4 + length)];
      this.#bytes = head.length - 4 - length;
    }
  }

  #join(): Buffer {
    const [first, ...rest] = this.#pieces;
    if (first !== undefined && (rest.length === 0 || first.length >= 4)) {
      // Join only when the frame is complete: pieces of one byte would otherwise cost the square of its length.
      if (rest.length === 0 || this.#bytes < 4 + Math.min(first.readUInt32BE(0), longestFrameBytes))
        return first;
    }
    const joined = Buffer.concat(this.#pieces);
    this.#pieces = [joined];
    return joined;
  }
}

export function parseRequest(text: string): Request {
  const message = parseObject(text);
  const { op } = message;
  const isValid =
    op === 'set'
      ? hasOnly(message, ['op', 'id', 'key', 'value']) && isKey(message['key']) && isText(message['value'])
      : op === 'get'
        ? hasOnly(message, ['op', 'id', 'key', 'from']) &&
          isKey(message['key']) &&
          (message['from'] === undefined || isCount(message['from']))
        : (op === 'cancel' || op === 'leave') && hasOnly(message, ['op', 'id']);
  if (!isValid || !isCount(message['id'])) throw new ProtocolError('not a request');
  return message as unknown as Request;
}

export function parseResponse(text: string): Response {
  const message = parseObject(text);
  const { op } = message;
  const isValid =
    op === 'value'
      ? hasOnly(message, ['op', 'id', 'value']) && isText(message['value'])
      : op === 'done'
        ? hasOnly(message, ['op', 'id'])
        : op === 'failed' && hasOnly(message, ['op', 'id', 'failure']) && isFailure(message['failure']);
  if (!isValid || !isCount(message['id'])) throw new ProtocolError('not a response');
  return message as unknown as Response;
}

function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ProtocolError('not JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ProtocolError('no object');
  return value as Record<string, unknown>;
}

function isFailure(value: unknown): value is StoreFailure {
  if (typeof value !== 'object' || value === null) return false;
  const failure = value as Record<string, unknown>;
  return (
    hasOnly(failure, ['code', 'message', 'rank', 'pid', 'signal', 'exitCode']) &&
    isText(failure['code']) &&
    Object.hasOwn(errorCodes, failure['code'] as string) &&
    isText(failure['message']) &&
    ['rank', 'pid', 'exitCode'].every((key) => failure[key] === undefined || isCount(failure[key])) &&
    (failure['signal'] === undefined || isText(failure['signal']))
  );
}

function hasOnly(object: Record<string, unknown>, keys: readonly string[]): boolean {
  return Object.keys(object).every((key) => keys.includes(key));
}

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

function isKey(value: unknown): boolean {
  return typeof value === 'string' && value.length > 0 && value.length <= longestKey;
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
