// How long a rank whose operation has failed waits for others that write into its memory; NOTE [Hands off] in
// native/src/group/control.h has the protocol.

import { HorovodError } from '../../errors.ts';

/** A writer that has neither finished nor died by then is killed: by the launcher, which watches the control block too, … */
export const launcherKillsAfterMs = 1000;
/** … or by the ranks that wait for it, where there is no launcher or it does not know of this control block. */
export const ranksKillAfterMs: { readonly withLauncher: number; readonly alone: number } = {
  withLauncher: 1500,
  alone: 1000,
};
/** A process that cannot be killed must not block the others. */
export const handsOffMs = 2000;

/** This rank has given up waiting for `writer`. */
export function lateWriterError(
  rank: number,
  writer: number,
  pid: number,
  cause?: HorovodError,
): HorovodError {
  return new HorovodError(
    'ERR_HVD_NATIVE',
    `rank ${rank}: rank ${writer} (pid ${pid}) may still write into the memory of this rank: it has neither finished its ` +
      `operation nor ended within ${handsOffMs / 1000} s. The content of tensors on this rank can no longer be trusted; ` +
      'end this process.',
    { rank: writer, pid, ...(cause === undefined ? {} : { cause }) },
  );
}
