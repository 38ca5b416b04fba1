// The one error type users see, and the list of its codes. The text says what happened, where (rank, host, operation,
// tensor) and what to do; programs match on the code. Its stack begins at the user's call.

import { showCaller } from './caller.ts';

export const errorCodes = {
  ERR_HVD_NOT_INITIALIZED: 'A function was called before init().',
  ERR_HVD_SHUT_DOWN: 'A function was called after shutdown(), or another rank has shut down.',
  ERR_HVD_INVALID_ARGUMENT: 'An argument is invalid. Nothing was sent to other ranks.',
  ERR_HVD_INVALID_DTYPE:
    'The typed array does not match the dtype, or the operation does not support this dtype.',
  ERR_HVD_DETACHED: 'The buffer was detached (transferred) and no longer has any memory.',
  ERR_HVD_DUPLICATE_NAME: 'An operation with the same name is still running on this rank.',
  ERR_HVD_PROCESS_SET:
    'The process set is unknown, was removed or already exists, or this rank is not in it.',
  ERR_HVD_MISMATCH:
    'Ranks used the same name for operations with a different dtype, shape, operation, scale, root or group.',
  ERR_HVD_JOIN_UNSUPPORTED: 'The operation cannot run while a rank has joined.',
  ERR_HVD_DEADLOCK: 'Every rank is blocked in a Sync call, and no two of them wait for the same operation.',
  ERR_HVD_TIMEOUT: 'A wait exceeded its time limit.',
  ERR_HVD_ABORTED: 'An AbortSignal cancelled a wait.',
  ERR_HVD_PEER_LOST: 'Another rank died, or its host was lost.',
  ERR_HVD_WOULD_BLOCK: 'A Sync function was called where blocking would stop the ranks it waits for.',
  ERR_HVD_HOST: 'A host of the job cannot be reached, or cannot run its ranks.',
  ERR_HVD_RENDEZVOUS: 'The ranks could not find or authenticate each other.',
  ERR_HVD_TAMPERED: 'A connection of the job carried bytes that the process at its other end did not send.',
  ERR_HVD_VERSION: 'Ranks of the job run different versions of this package.',
  ERR_HVD_SHARED_MEMORY: 'The memory file system is full, too small or unusable.',
  ERR_HVD_OUT_OF_MEMORY: 'There is not enough memory for a result or for alloc().',
  ERR_HVD_SETTING: 'A setting (flag, environment variable or config file) has an invalid value.',
  ERR_HVD_MODEL_FILE: 'A saved model is missing, damaged or cannot be written.',
  ERR_HVD_DATA_FILE:
    'A file with training data is missing, damaged or of another format, or cannot be written.',
  ERR_HVD_FILE_SYSTEM:
    'A file or folder is missing, exists already or may not be used, or its disk or server has failed.',
  ERR_HVD_DATA_STATE:
    'The state given to restore() belongs to another pipeline or to other files, or is damaged.',
  ERR_HVD_DATA_SERVICE: 'A part of the data service is missing, was lost or has failed.',
  ERR_HVD_DATA_FUNCTION: 'A function of a data pipeline threw, or cannot be loaded.',
  ERR_HVD_TIMELINE: 'The timeline file cannot be written, or another timeline is already running.',
  ERR_HVD_NATIVE:
    'The native addon is missing, or it failed because of a bug, a broken system call or a rank that could not be stopped.',
  ERR_HVD_RUN: 'A rank of run() threw an error or ended without a result, or a rank called run().',
  ERR_HVD_NOTEBOOK: 'A notebook cannot run as a program: its format, language, parameters or code.',
  ERR_HVD_HOSTS_UPDATED:
    'The ranks of an elastic job are about to change; elastic.run() goes on with the new ones.',
  ERR_HVD_REMOVED: 'This process is no longer in its elastic job.',
  ERR_HVD_STALE: 'Something of an earlier generation of an elastic job was used.',
  ERR_HVD_RESET_LIMIT: 'The ranks of an elastic job have changed more often than --reset-limit allows.',
  ERR_HVD_STATE_LOST: 'An elastic job has lost a part of its sharded state together with the copy of it.',
  ERR_HVD_TOO_FEW_RANKS: 'An elastic job had fewer ranks than --min-np for too long.',
  ERR_HVD_UNSUPPORTED: 'This version does not support the feature.',
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

/** Of an error whose stack shows the user's call. */
const showsCaller = Symbol('showsCaller');

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
    Object.defineProperty(this, showsCaller, { value: showCaller(this), writable: true });
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

/**
 * Called where an error leaves this package, in a catch: an error that was made elsewhere, in a timer say, gets the stack of
 * who waits for it. One that is thrown again and again shows the first call that met it. Returns the error.
 */
export function fromCaller<E>(error: E): E {
  const made = error as { [showsCaller]?: boolean };
  if (error instanceof HorovodError && made[showsCaller] === false) made[showsCaller] = showCaller(error);
  return error;
}
