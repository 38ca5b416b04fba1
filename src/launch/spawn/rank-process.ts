// One rank's process: the leader of a process group of its own, so that a signal reaches whatever it starts (a
// shell, npx), and a Ctrl-C in the terminal reaches only the launcher, which decides.

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

  /** Never throws: what cannot be started has ended. */
  constructor(rank: number, command: RankCommand, env: NodeJS.ProcessEnv) {
    this.rank = rank;
    let child: ChildProcessByStdio<null, Readable, Readable> | undefined;
    try {
      child = spawnRank(command, env);
    } catch (error) {
      // Most errors come as an event, but not all: an environment that is too large is thrown.
      this.spawnError = error as NodeJS.ErrnoException;
    }
    this.#child = child;
    // Without descriptors left there are no pipes either.
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
        // As a shell has it: 127 not found, 126 found but not to be run.
        resolve({ code: error.code === 'ENOENT' ? 127 : 126 });
      });
    });
  }

  /** Also the number of its process group. Undefined if it could not be started. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Signals the whole group; false if there is nobody in it. */
  signalGroup(signal: NodeJS.Signals | 0): boolean {
    if (this.pid === undefined) return false;
    try {
      return process.kill(-this.pid, signal);
    } catch (error) {
      // EPERM: somebody is there, who is not ours to signal.
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
