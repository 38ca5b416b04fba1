// The one error type users see, and the list of its codes. The text says what happened, where (rank, host, operation,
// tensor) and what to do; programs match on the code.

export const errorCodes = {
  ERR_HVD_NOT_INITIALIZED: 'A call came before init().',
  ERR_HVD_SHUT_DOWN: 'A call came after shutdown(), or another rank has shut down.',
  ERR_HVD_INVALID_ARGUMENT: 'An argument of this call is wrong; nothing was sent to other ranks.',
  ERR_HVD_INVALID_DTYPE: 'The typed array does not fit the dtype, or the operation does not take this dtype.',
  ERR_HVD_DETACHED: 'The buffer was detached (transferred) and has no memory any more.',
  ERR_HVD_DUPLICATE_NAME: 'An operation of the same name is in flight on this rank.',
  ERR_HVD_PROCESS_SET: 'The process set is unknown, was removed, exists already, or this rank is not in it.',
  ERR_HVD_MISMATCH:
    'Ranks submitted the same name with different dtype, shape, operation, scale, root or group.',
  ERR_HVD_JOIN_UNSUPPORTED: 'The operation cannot run while a rank has joined.',
  ERR_HVD_DEADLOCK: 'Every rank is blocked in a Sync call and no two wait for the same thing.',
  ERR_HVD_TIMEOUT: 'A wait passed its deadline.',
  ERR_HVD_ABORTED: 'An AbortSignal ended a wait.',
  ERR_HVD_PEER_LOST: 'Another rank died.',
  ERR_HVD_WOULD_BLOCK: 'A Sync form was called where blocking would stop the ranks waited for.',
  ERR_HVD_HOST: 'A host of the job cannot be reached, or cannot run its ranks.',
  ERR_HVD_RENDEZVOUS: 'Ranks could not find or authenticate each other.',
  ERR_HVD_SHARED_MEMORY: 'The memory file system is full, too small or not usable.',
  ERR_HVD_OUT_OF_MEMORY: 'Memory for a result or an alloc() could not be had.',
  ERR_HVD_SETTING: 'A setting (flag, environment variable, config file) has a wrong value.',
  ERR_HVD_MODEL_FILE: 'A saved model is missing, damaged or cannot be written.',
  ERR_HVD_TIMELINE: 'The file of a timeline cannot be written, or another timeline is on.',
  ERR_HVD_NATIVE: 'The native addon failed in a way that is a bug or a broken system call.',
  ERR_HVD_RUN: 'A rank of run() threw an error, or ended without a result.',
  ERR_HVD_UNSUPPORTED: 'The feature does not exist in this version.',
} as const;

export type ErrorCode = keyof typeof errorCodes;

export interface HorovodErrorDetails {
  /** The rank the error is about: the lost, late or disagreeing one. */
  rank?: number | undefined;
  /** Name of the operation (tensor) concerned. */
  tensor?: string | undefined;
  /** Process id of `rank`, where known. */
  pid?: number | undefined;
  /** Signal that ended `rank`, where known. */
  signal?: string | undefined;
  /** Exit code of `rank`, where known. */
  exitCode?: number | undefined;
  cause?: unknown;
}

/**
 * Every function of this package throws it, or rejects with it. Match on `code`. Fields without a value are not there at
 * all, so that a printed error shows only what is known.
 */
export class HorovodError extends Error {
  override readonly name = 'HorovodError';
  readonly code: ErrorCode;
  /** The rank the error is about: the lost, late or disagreeing one. */
  declare readonly rank?: number;
  /** Name of the operation (tensor) concerned. */
  declare readonly tensor?: string;
  /** Process id of `rank`. */
  declare readonly pid?: number;
  /** Signal that ended `rank`. */
  declare readonly signal?: string;
  /** Exit code of `rank`. */
  declare readonly exitCode?: number;
  readonly #detail: string;

  constructor(code: ErrorCode, detail: string, details: HorovodErrorDetails = {}) {
    super(`${code}: ${detail}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.#detail = detail;
    for (const name of ['rank', 'tensor', 'pid', 'signal', 'exitCode'] as const) {
      if (details[name] !== undefined) Object.assign(this, { [name]: details[name] });
    }
  }

  /** The text of `message` without the code. */
  get detail(): string {
    return this.#detail;
  }

  /** True for a HorovodError of any copy of this package (two copies may be installed). */
  static is(error: unknown): error is HorovodError {
    return error instanceof Error && error.name === 'HorovodError' && 'code' in error;
  }
}
