// What is written into the control block about a failure, as JSON that always fits and always parses: long
// strings are shortened until it does. Records are data, never code; what does not look like one is ignored.

import { type ErrorCode, errorCodes, HorovodError } from '../errors.ts';

/** An error as it travels between processes: of a stack only the text. */
export interface ErrorRecord {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
  /** Of the HorovodError that this error is, or was caused by. */
  readonly code?: string;
  /** The rank that HorovodError blames. */
  readonly rank?: number;
}

/** Why the job failed, as the rank that failed first saw it. */
export interface FailureRecord {
  readonly code: ErrorCode;
  /** Without the code in front. */
  readonly message: string;
  readonly rank?: number | undefined;
  readonly tensor?: string | undefined;
  readonly pid?: number | undefined;
  readonly signal?: string | undefined;
  readonly exitCode?: number | undefined;
  readonly cause?: ErrorRecord | undefined;
}

/** The record of any thrown value. */
export function toErrorRecord(thrown: unknown): ErrorRecord {
  const blamed = findHorovodError(thrown);
  const error = thrown instanceof Error ? thrown : new Error(describe(thrown));
  return {
    name: String(error.name),
    message: String(error.message),
    stack: thrown instanceof Error ? String(error.stack ?? '') : '',
    ...(blamed === undefined ? {} : { code: blamed.code }),
    ...(blamed?.rank === undefined ? {} : { rank: blamed.rank }),
  };
}

/** The record of a HorovodError, to be handed to ControlBlock.fail(). */
export function toFailureRecord(error: HorovodError): FailureRecord {
  const { code, detail, rank, tensor, pid, signal, exitCode, cause } = error;
  return {
    code,
    message: detail,
    rank,
    tensor,
    pid,
    signal,
    exitCode,
    ...(cause === undefined ? {} : { cause: toErrorRecord(cause) }),
  };
}

/** The error every rank throws for this record. */
export function toError(record: FailureRecord): HorovodError {
  const { code, message, cause, ...details } = record;
  return new HorovodError(code, message, {
    ...details,
    ...(cause === undefined ? {} : { cause: causeOf(cause) }),
  });
}

/** An Error that looks like the recorded one: its name, message and the stack of the process it comes from. */
export function causeOf(record: ErrorRecord): Error {
  const error = new Error(record.message);
  error.name = record.name;
  error.stack = record.stack === '' ? `${record.name}: ${record.message}` : record.stack;
  return error;
}

/** JSON of at most `limitBytes` bytes. */
export function encodeRecord(record: ErrorRecord | FailureRecord, limitBytes: number): Buffer {
  for (let longest = limitBytes; longest >= 8; longest = Math.floor(longest / 1.5)) {
    const json = JSON.stringify(record, (_key, value: unknown) =>
      typeof value === 'string' && value.length > longest ? `${value.slice(0, longest - 1)}…` : value,
    );
    const bytes = Buffer.from(json);
    if (bytes.length <= limitBytes) return bytes;
  }
  throw new RangeError(`no error record fits ${limitBytes} bytes`);
}

/** Undefined for bytes that are no record, for example half-written ones. */
export function decodeErrorRecord(bytes: Buffer): ErrorRecord | undefined {
  const value = parse(bytes);
  return isErrorRecord(value) ? value : undefined;
}

export function decodeFailureRecord(bytes: Buffer): FailureRecord | undefined {
  const value = parse(bytes);
  if (typeof value !== 'object' || value === null) return undefined;
  const record = value as Record<string, unknown>;
  const isRecord =
    typeof record['code'] === 'string' &&
    Object.hasOwn(errorCodes, record['code']) &&
    typeof record['message'] === 'string' &&
    (['rank', 'pid', 'exitCode'] as const).every((key) => isOptional(record[key], 'number')) &&
    (['tensor', 'signal'] as const).every((key) => isOptional(record[key], 'string')) &&
    (record['cause'] === undefined || isErrorRecord(record['cause']));
  return isRecord ? (value as FailureRecord) : undefined;
}

function isErrorRecord(value: unknown): value is ErrorRecord {
  if (typeof value !== 'object' || value === null) return false;
  const record = value as Record<string, unknown>;
  return (
    (['name', 'message', 'stack'] as const).every((key) => typeof record[key] === 'string') &&
    isOptional(record['code'], 'string') &&
    isOptional(record['rank'], 'number')
  );
}

function isOptional(value: unknown, type: 'number' | 'string'): boolean {
  return value === undefined || typeof value === type;
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}

function findHorovodError(thrown: unknown): HorovodError | undefined {
  // A chain of causes may be circular; ten links are more than anybody writes.
  for (let error = thrown, depth = 0; error instanceof Error && depth < 10; error = error.cause, depth++) {
    if (HorovodError.is(error)) return error;
  }
  return undefined;
}

function describe(thrown: unknown): string {
  try {
    return typeof thrown === 'object' ? (JSON.stringify(thrown) ?? String(thrown)) : String(thrown);
  } catch {
    return 'a value that cannot be shown';
  }
}
