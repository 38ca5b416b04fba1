// What clients of a store and its server say to each other: JSON in sealed frames. A message with an unknown or missing field is
// no message.

import { decodeFailureRecord, encodeRecord, toError, toFailureRecord } from '../../control/failure-record.ts';
import { HorovodError } from '../../errors.ts';
import { type Fields, hasFields, isCount, isText, ProtocolError, parseObject } from '../../net/frames.ts';

export const maxFrameBytes: number = 64 * 1024;
export const maxKeyLength = 256;
/** What a rank is connected for: the start of its context, or the call of run(). One connection each at a time. */
export const storeChannels = ['', 'run'] as const;
export type StoreChannel = (typeof storeChannels)[number];

export type Request =
  | { readonly op: 'set'; readonly id: number; readonly key: string; readonly value: string }
  | { readonly op: 'get'; readonly id: number; readonly key: string; readonly from?: number }
  /** A question to whoever runs the server, and not to the store: the registry of a data service. Answered with a value. */
  | { readonly op: 'call'; readonly id: number; readonly body: string }
  /** The caller of the get or call `id` waits no longer. */
  | { readonly op: 'cancel'; readonly id: number }
  /** The caller closes its store: the end of the connection is no loss. */
  | { readonly op: 'leave'; readonly id: number };

export type Response =
  | { readonly op: 'value'; readonly id: number; readonly value: string }
  | { readonly op: 'done'; readonly id: number }
  /** `failure` is a FailureRecord as JSON. */
  | { readonly op: 'failed'; readonly id: number; readonly failure: string };

const maxFailureBytes = 4096;

const requestFields: Readonly<Record<string, Fields>> = {
  set: { key: isKey, value: isText },
  get: { key: isKey, from: (value) => value === undefined || isCount(value) },
  call: { body: isText },
  cancel: {},
  leave: {},
};

const responseFields: Readonly<Record<string, Fields>> = {
  value: { value: isText },
  done: {},
  failed: { failure: isText },
};

export function encodeMessage(message: Request | Response): string {
  return JSON.stringify(message);
}

export function parseRequest(body: Buffer): Request {
  return parse(body, requestFields) as unknown as Request;
}

export function parseResponse(body: Buffer): Response {
  return parse(body, responseFields) as unknown as Response;
}

/** An error as text, for the other side. */
export function encodeFailure(thrown: unknown): string {
  const error = HorovodError.is(thrown) ? thrown : new HorovodError('ERR_HVD_RENDEZVOUS', String(thrown));
  return encodeRecord(toFailureRecord(error), maxFailureBytes).toString('utf8');
}

export function decodeFailure(text: string): HorovodError {
  const record = decodeFailureRecord(Buffer.from(text));
  if (record === undefined) throw new ProtocolError('an error that cannot be read');
  return toError(record);
}

function parse(body: Buffer, messages: Readonly<Record<string, Fields>>): Record<string, unknown> {
  const message = parseObject(body);
  const op = String(message['op']);
  const fields = Object.hasOwn(messages, op) ? messages[op] : undefined;
  if (fields === undefined || !isCount(message['id']) || !hasFields(message, fields, ['op', 'id']))
    throw new ProtocolError('a message with unknown or missing fields');
  return message;
}

function isKey(value: unknown): boolean {
  return typeof value === 'string' && value.length > 0 && value.length <= maxKeyLength;
}
