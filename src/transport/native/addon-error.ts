// Errors that the addon throws (a system call has failed) as errors for users.

import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';
import { HorovodError } from '../../errors.ts';

const { EAGAIN, EMFILE, ENFILE, ENOMEM } = constants.errno;

/** The addon's errors have the errno as their code. Others are returned as they are. */
export function addonError(rank: number, what: string, error: unknown): unknown {
  const { code, message } = error as { code?: unknown; message?: string };
  const errno = Number(code);
  if (HorovodError.is(error) || !Number.isInteger(errno) || errno <= 0) return error;
  return new HorovodError(
    errno === ENOMEM ? 'ERR_HVD_OUT_OF_MEMORY' : 'ERR_HVD_NATIVE',
    `rank ${rank}: ${what}: ${message} (${getSystemErrorName(-errno)}).${adviceFor(errno)}`,
    { rank, cause: error },
  );
}

/** What to do if a thread cannot be started. */
export const threadAdvice =
  'The limit of processes and threads has been reached: raise it (ulimit -u; for a container, its limit of pids).';

function adviceFor(errno: number): string {
  if (errno === EAGAIN) return ` ${threadAdvice}`;
  if (errno === EMFILE || errno === ENFILE) return ' Raise the limit of open files (ulimit -n).';
  if (errno === ENOMEM) return ' Raise the limit of its address space (ulimit -v), or give it more memory.';
  return '';
}
