// What watches say to each other: JSON in sealed frames, as on a connection to the store. A peer has proven to be of the job;
// what it says is checked all the same, field by field.

import type { Departure, ErrorRecord, FailureRecord } from '../../control/control-block.ts';
import { decodeErrorRecord, decodeFailureRecord } from '../../control/failure-record.ts';
import type { ProcessEnd } from '../../control/process-status.ts';
import { type Fields, hasFields, isCount, isText, ProtocolError, parseObject } from '../../net/frames.ts';
import { type HostUse, toHostUse } from '../../observe/hosts/host-use.ts';
import { decodeRankStatus, type RankStatus } from '../../observe/status/rank-status.ts';

export type WatchMessage =
  /** I am here. */
  | { readonly type: 'beat' }
  /** The job has failed, and why. */
  | { readonly type: 'failure'; readonly record: FailureRecord }
  /** A rank of my host has left or died. */
  | { readonly type: 'departure'; readonly rank: number; readonly departure: Departure }
  /** What a rank of my host said of itself `ageMs` ago. */
  | { readonly type: 'status'; readonly rank: number; readonly ageMs: number; readonly status: RankStatus }
  /** How busy my host was `ageMs` ago; `rank` is its first. */
  | { readonly type: 'host'; readonly rank: number; readonly ageMs: number; readonly use: HostUse }
  /** Events of the timelines of your ranks are wanted, or no longer. */
  | { readonly type: 'collect'; readonly isOn: boolean; readonly session: number }
  /** What does your clock say? `askedUs` comes back with the answer. */
  | { readonly type: 'clock?'; readonly askedUs: number }
  | {
      readonly type: 'clock';
      readonly askedUs: number;
      /** When the question came and when this left, by my clock. */
      readonly receivedUs: number;
      readonly answeredUs: number;
    }
  /** The next bytes (base64) of the ring of a rank of my host; `ring` tells its rings apart. */
  | {
      readonly type: 'events';
      readonly rank: number;
      readonly ring: number;
      /** Which timeline it is for. */
      readonly session: number;
      readonly data: string;
      readonly dropped: number;
      readonly isOver: boolean;
    }
  /** I leave in good order: the end of this connection is no failure. */
  | { readonly type: 'goodbye' };

/** As base64 the largest piece of a timeline fits. */
export const maxFrameBytes: number = 64 * 1024;

export function encodeMessage(message: WatchMessage): string {
  return JSON.stringify(message);
}

/** Throws a ProtocolError for what is no message. */
export function parseMessage(body: Buffer): WatchMessage {
  const message = toMessage(parseObject(body));
  if (message === undefined) throw new ProtocolError('a message with unknown or missing fields');
  return message;
}

const isFlag = (value: unknown) => typeof value === 'boolean';
const isNumber = (value: unknown) => typeof value === 'number';

/** Messages that need no more than a look at each field. */
const plainMessages: Readonly<Record<string, Fields>> = {
  beat: {},
  goodbye: {},
  collect: { isOn: isFlag, session: isCount },
  'clock?': { askedUs: isNumber },
  clock: { askedUs: isNumber, receivedUs: isNumber, answeredUs: isNumber },
  events: { rank: isCount, ring: isCount, session: isCount, data: isText, dropped: isCount, isOver: isFlag },
};

function toMessage(value: Record<string, unknown>): WatchMessage | undefined {
  const { type, rank, ageMs } = value;
  if (type === 'failure') {
    const record = decodeFailureRecord(toBytes(value['record']));
    return record === undefined ? undefined : { type, record };
  }
  if (type === 'departure') {
    const departure = toDeparture(value['departure']);
    return departure === undefined || !isCount(rank) ? undefined : { type, rank, departure };
  }
  if (type === 'status') {
    const status = decodeRankStatus(JSON.stringify(value['status']) ?? '');
    if (status === undefined || !isCount(rank) || typeof ageMs !== 'number' || ageMs < 0) return undefined;
    return { type, rank, ageMs, status };
  }
  if (type === 'host') {
    const use = toHostUse(value['use']);
    if (use === undefined || !isCount(rank) || typeof ageMs !== 'number' || ageMs < 0) return undefined;
    return { type, rank, ageMs, use };
  }
  const fields = Object.hasOwn(plainMessages, String(type)) ? plainMessages[String(type)] : undefined;
  const isValid = fields !== undefined && hasFields(value, fields, ['type']);
  return isValid ? (value as unknown as WatchMessage) : undefined;
}

function toDeparture(value: unknown): Departure | undefined {
  if (!isObject(value)) return undefined;
  const { host, pid, hasLeft } = value;
  if (typeof host !== 'string' || !isCount(pid) || typeof hasLeft !== 'boolean') return undefined;
  const exit = toProcessEnd(value['exit']);
  const lastWords: ErrorRecord | undefined = decodeErrorRecord(toBytes(value['lastWords']));
  if ((exit === undefined) !== (value['exit'] === undefined)) return undefined;
  if ((lastWords === undefined) !== (value['lastWords'] === undefined)) return undefined;
  return { host, pid, hasLeft, exit, lastWords };
}

function toProcessEnd(value: unknown): ProcessEnd | undefined {
  if (!isObject(value)) return undefined;
  const { code, signal } = value;
  if (isCount(code) && code <= 255) return { code };
  return typeof signal === 'string' && /^(SIG[A-Z0-9]{1,12}|signal \d{1,3})$/.test(signal)
    ? { signal }
    : undefined;
}

function toBytes(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value) ?? '');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
