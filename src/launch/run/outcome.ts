// The outcome of the call on one rank, as bytes: a value, or an error with its stack.

import { inspect } from 'node:util';
import { deserialize, serialize } from 'node:v8';
import { type ErrorCode, errorCodes, HorovodError } from '../../errors.ts';

export type Outcome =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'error'; readonly error: ThrownError };

/** An error as data, with the parts that structured clone drops (code, class). */
export interface ThrownError {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
  readonly code?: string | undefined;
  /** Of a HorovodError: its message without the code. */
  readonly detail?: string | undefined;
  /** Of a HorovodError: the rank it is about. */
  readonly rank?: number | undefined;
  readonly cause?: ThrownError | undefined;
}

const maxCauses = 5;

export interface EncodedOutcome {
  readonly bytes: Buffer;
  /** The error with which the rank ends. */
  readonly failure?: { readonly error: unknown };
}

/** If the value cannot be cloned, the rank that returned it fails. */
export function encodeValue(value: unknown): EncodedOutcome {
  try {
    return { bytes: serialize({ kind: 'value', value } satisfies Outcome) };
  } catch (error) {
    const unsendable = new TypeError(`the result cannot be sent back: ${(error as Error).message}`);
    return { bytes: encodeError(unsendable), failure: { error: unsendable } };
  }
}

export function encodeError(error: unknown): Buffer {
  return serialize({ kind: 'error', error: describeThrown(error) } satisfies Outcome);
}

export function decodeOutcome(bytes: Buffer): Outcome {
  return deserialize(bytes) as Outcome;
}

/** The error as the rank had it, with its stack. */
export function rebuildError(thrown: ThrownError): Error {
  const cause = thrown.cause === undefined ? undefined : { cause: rebuildError(thrown.cause) };
  const { name, message, stack, code, detail, rank } = thrown;
  const isOurs = detail !== undefined && code !== undefined && code in errorCodes;
  const error = isOurs
    ? new HorovodError(code as ErrorCode, detail, { ...cause, rank })
    : Object.assign(new Error(message, cause), { name });
  if (!isOurs && code !== undefined) Object.assign(error, { code });
  error.stack = stack;
  return error;
}

function describeThrown(error: unknown, depth = 0): ThrownError {
  if (!(error instanceof Error)) {
    const text = `${inspect(error, { depth: 2 })} was thrown, which is not an Error`;
    return { name: 'Error', message: text, stack: text };
  }
  const { code, rank } = error as { code?: unknown; rank?: unknown };
  return {
    name: error.name,
    message: error.message,
    stack: error.stack ?? `${error.name}: ${error.message}`,
    code: typeof code === 'string' ? code : undefined,
    detail: HorovodError.is(error) ? error.detail : undefined,
    rank: typeof rank === 'number' ? rank : undefined,
    cause:
      error.cause === undefined || depth >= maxCauses ? undefined : describeThrown(error.cause, depth + 1),
  };
}
