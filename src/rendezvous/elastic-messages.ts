// What workers of an elastic job and its driver, in horovodrun, tell each other through the store: JSON texts under keys that
// are written once. A text with an unknown or missing field is no message. See src/elastic/membership.ts for the worker's
// side and src/launch/elastic for the driver's.

import { type ErrorCode, errorCodes, HorovodError } from '../errors.ts';
import { type Fields, hasFields, isCount, isText, ProtocolError, parseObject } from '../net/frames.ts';

/** Why a worker has left the generation it was in. */
export interface LeaveCause {
  readonly code: ErrorCode;
  /** Without the code in front. */
  readonly message: string;
  /** Number of the worker that the error blames. */
  readonly worker?: number | undefined;
}

/** Worker to driver, under `readyKey()`: give me a seat. */
export interface Ready {
  /** The last generation that this worker has formed with the others; 0: none. */
  readonly generation: number;
  /** Number of its last commit; -1: it has none. */
  readonly commit: number;
  /** Training steps that it has done since then, and does again. */
  readonly stepsSince?: number | undefined;
  readonly host: string;
  readonly pid: number;
  /** Why it left that generation; undefined if it was in none, or has finished. */
  readonly cause?: LeaveCause | undefined;
  /** Its training function has returned. */
  readonly isDone?: true | undefined;
}

/** A rank that the next generation does without. */
export interface LostRank {
  /** Its rank in the generation before. */
  readonly rank: number;
  readonly host: string;
  /** Completes 'rank 1 …': 'was killed by SIGKILL'. */
  readonly how: string;
}

/** A place in a generation. */
export interface Seat {
  readonly generation: number;
  readonly rank: number;
  readonly size: number;
  /** Numbers of the workers, by rank. */
  readonly workers: readonly number[];
  /** Those of them that were not in the generation before. */
  readonly joined: readonly number[];
  readonly lost: readonly LostRank[];
  /** 0: there was none before. */
  readonly previousSize: number;
  /** By rank: the generation since which it has been the same worker. 1: since the job began to train. */
  readonly since: readonly number[];
}

/** Driver to worker, under `assignmentKey()`: the answer to a Ready. */
export type Assignment =
  | (Seat & { readonly kind: 'seat' })
  /** Every member has said that it is done. */
  | { readonly kind: 'finished' }
  /** This worker is no longer in the job. */
  | { readonly kind: 'removed'; readonly why: string }
  /** The job ends. */
  | { readonly kind: 'failed'; readonly code: JobEnd; readonly message: string };

/** Codes with which a driver ends its job while workers wait for a seat. */
export type JobEnd = 'ERR_HVD_RESET_LIMIT' | 'ERR_HVD_TOO_FEW_RANKS' | 'ERR_HVD_PEER_LOST' | 'ERR_HVD_HOST';

const jobEnds: readonly JobEnd[] = [
  'ERR_HVD_RESET_LIMIT',
  'ERR_HVD_TOO_FEW_RANKS',
  'ERR_HVD_PEER_LOST',
  'ERR_HVD_HOST',
];

/** `count`: the worker's reports from 1. */
export function readyKey(worker: number, count: number): string {
  return `elastic/ready/${worker}/${count}`;
}

/** The answer to the report with the same `count`. */
export function assignmentKey(worker: number, count: number): string {
  return `elastic/assignment/${worker}/${count}`;
}

/** Written when the worker has the state of the generation and is about to train: how many steps it went back from its last commit. */
export function formedKey(generation: number, worker: number): string {
  return `elastic/formed/${generation}/${worker}`;
}

/** Of the value of formedKey(). A worker that sends anything else has gone back by none. */
export function decodeFormed(text: string): number {
  const wentBack = Number(text);
  return Number.isSafeInteger(wentBack) && wentBack > 0 ? wentBack : 0;
}

/** Of every key by which the workers of a generation find each other; the driver closes it when one of them is lost. */
export function generationPrefix(generation: number): string {
  return `g/${generation}/`;
}

export function encodeReady(ready: Ready): string {
  return JSON.stringify(ready);
}

/** Throws a ProtocolError for what is no report. */
export function decodeReady(text: string): Ready {
  return parse(text, readyFields) as unknown as Ready;
}

export function encodeAssignment(assignment: Assignment): string {
  return JSON.stringify(assignment);
}

/** Throws a ProtocolError for what is no assignment. */
export function decodeAssignment(text: string): Assignment {
  const message = parseObject(Buffer.from(text));
  const kind = String(message['kind']);
  const fields = Object.hasOwn(assignmentFields, kind) ? assignmentFields[kind] : undefined;
  if (fields === undefined || !hasFields(message, fields, ['kind'])) throw unknownFields();
  const assignment = message as unknown as Assignment;
  if (assignment.kind === 'seat') checkSeat(assignment);
  return assignment;
}

/** The error with which an assignment ends the worker's part in the job; undefined for a seat, and for a good end. */
export function assignmentError(assignment: Assignment, worker: number): HorovodError | undefined {
  switch (assignment.kind) {
    case 'removed':
      return new HorovodError(
        'ERR_HVD_REMOVED',
        `this process (worker ${worker}) is no longer in the job: ${assignment.why}. Let it end; its exit code does not matter.`,
      );
    case 'failed':
      return new HorovodError(assignment.code, assignment.message);
    default:
      return undefined;
  }
}

const isCode = (value: unknown) => typeof value === 'string' && Object.hasOwn(errorCodes, value);
const isWorker = isCount;
const optional = (check: (value: unknown) => boolean) => (value: unknown) =>
  value === undefined || check(value);
const listOf = (check: (value: unknown) => boolean) => (value: unknown) =>
  Array.isArray(value) && value.every(check);
const objectOf = (fields: Fields) => (value: unknown) =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  hasFields(value as Record<string, unknown>, fields, []);

const readyFields: Fields = {
  generation: isCount,
  commit: (value) => value === -1 || isCount(value),
  stepsSince: optional(isCount),
  host: isText,
  pid: isCount,
  cause: optional(objectOf({ code: isCode, message: isText, worker: optional(isWorker) })),
  isDone: optional((value) => value === true),
};

const assignmentFields: Readonly<Record<string, Fields>> = {
  seat: {
    generation: isCount,
    rank: isCount,
    size: isCount,
    workers: listOf(isWorker),
    joined: listOf(isWorker),
    lost: listOf(objectOf({ rank: isCount, host: isText, how: isText })),
    previousSize: isCount,
    since: listOf(isCount),
  },
  finished: {},
  removed: { why: isText },
  failed: { code: (value) => jobEnds.includes(value as JobEnd), message: isText },
};

function checkSeat({ generation, rank, size, workers, since }: Seat): void {
  const isWhole =
    generation > 0 &&
    rank < size &&
    size === workers.length &&
    new Set(workers).size === size &&
    size === since.length;
  if (!isWhole) throw new ProtocolError('a seat that cannot be');
}

function parse(text: string, fields: Fields): Record<string, unknown> {
  const message = parseObject(Buffer.from(text));
  if (!hasFields(message, fields, [])) throw unknownFields();
  return message;
}

function unknownFields(): ProtocolError {
  return new ProtocolError('a message with unknown or missing fields');
}
