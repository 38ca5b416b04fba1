// The process of one rank. It leads a separate process group, so that signals reach everything it starts (a shell, npx),
// and Ctrl-C in the terminal reaches only the launcher.

import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { Readable } from 'node:stream';
import type { ProcessEnd } from '../../control/process-status.ts';

export interface RankCommand {
  readonly file: string;
  readonly args: readonly string[];
}

export class RankProcess {
  readonly rank: number;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** How the process ended. */
  readonly ended: Promise<ProcessEnd>;
  /** Why it could not be started. */
  spawnError: NodeJS.ErrnoException | undefined;
  readonly #child: ChildProcess | undefined;

  /** Never throws; a process that cannot be started counts as ended. */
  constructor(rank: number, command: RankCommand, env: NodeJS.ProcessEnv) {
    this.rank = rank;
    let child: ChildProcessByStdio<null, Readable, Readable> | undefined;
    try {
      child = spawnRank(command, env);
    } catch (error) {
      // Most errors are events, but an environment that is too large is thrown.
      this.spawnError = error as NodeJS.ErrnoException;
    }
    this.#child = child;
    // If the process runs out of descriptors, there are no pipes either.
    this.stdout = child?.stdout ?? Readable.from([]);
    this.stderr = child?.stderr ?? Readable.from([]);
    this.ended = new Promise((resolve) => {
      if (child === undefined) {
        resolve({ code: 126 });
        return;
      }
      child.once('exit', (code, signal) => resolve(signal === null ? { code: code ?? 0 } : { signal }));
      child.on('error', (error: NodeJS.ErrnoException) => {
        if (child.pid !== undefined) return;
        this.spawnError = error;
        // As in a shell: 127 not found, 126 cannot be executed.
        resolve({ code: error.code === 'ENOENT' ? 127 : 126 });
      });
    });
  }

  /** Also the number of its process group. Undefined if it could not be started. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Signals the whole group; false if it is empty. */
  signalGroup(signal: NodeJS.Signals | 0): boolean {
    if (this.pid === undefined) return false;
    try {
      return process.kill(-this.pid, signal);
    } catch (error) {
      // EPERM: there is a process that we may not signal.
      return (error as NodeJS.ErrnoException).code === 'EPERM';
    }
  }
}

function spawnRank(
  { file, args }: RankCommand,
  env: NodeJS.ProcessEnv,
): ChildProcessByStdio<null, Readable, Readable> {
  return spawn(file, args, { detached: true, env, stdio: ['ignore', 'pipe', 'pipe'] });
}
