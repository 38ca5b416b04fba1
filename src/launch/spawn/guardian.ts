// The guardian ends the ranks when the launcher cannot: one shell in a session of its own that reads the
// launcher's pipe. Only the launcher holds the other end, so the pipe ends when the launcher does, however it
// ended, SIGKILL included. Without the word `done` before it, every process group still listed gets SIGKILL, and
// then every process whose environment names the job: a rank that was just being started and is not listed yet,
// or one that has left its group. That is searched for again for two seconds, because a process that is between
// fork and exec does not have its environment yet.
// A shell and not an addon, because it works everywhere and cannot be taken down by what takes the launcher down.

import { type ChildProcess, spawn } from 'node:child_process';
import { settingsTable } from '../../settings/table.ts';

// $1 is the line of the environment to search for. `kill` twice, because shells differ: dash takes no `-KILL --`,
// others know no `-s`. Without /proc there is nothing to search, and the groups have to do.
const script = `
trap '' HUP INT QUIT TERM PIPE
groups=' '
while read -r word group; do
  case $word in
    add) groups="$groups$group " ;;
    remove)
      before=\${groups%%" $group "*}
      after=\${groups#*" $group "}
      [ "$before" = "$groups" ] || groups="$before $after" ;;
    done) exit 0 ;;
  esac
done
end() { kill -s KILL -- "$1" 2>/dev/null || kill -KILL "$1" 2>/dev/null; }
for group in $groups; do end "-$group"; done
[ -r /proc/self/environ ] || exit 0
for pause in 0.05 0.1 0.2 0.4 0.6 0.6 0; do
  for file in $(grep -lzxF -- "$1" /proc/[0-9]*/environ 2>/dev/null); do
    file=\${file#/proc/}
    end "\${file%/environ}"
  done
  sleep "$pause" 2>/dev/null || sleep 1
done
`;

export class Guardian {
  readonly #shell: ChildProcess;

  private constructor(shell: ChildProcess) {
    this.#shell = shell;
  }

  /** `path`: where its few commands are found. */
  static start(jobId: string, path: string | undefined): Guardian {
    const line = `${settingsTable.jobId.env}=${jobId}`;
    const shell = spawn('/bin/sh', ['-c', script, 'horovodrun-guardian', line], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      // Nothing of the job: neither its secret nor a directory that somebody wants to unmount.
      env: { PATH: `${path ?? ''}:/usr/bin:/bin` },
      cwd: '/',
    });
    shell.on('error', () => undefined);
    shell.stdin?.on('error', () => undefined);
    shell.unref();
    return new Guardian(shell);
  }

  get pid(): number | undefined {
    return this.#shell.pid;
  }

  /** From now on the group dies with the launcher. */
  add(group: number): void {
    this.#shell.stdin?.write(`add ${group}\n`);
  }

  /** The group has ended; its number may be given to somebody else. */
  remove(group: number): void {
    this.#shell.stdin?.write(`remove ${group}\n`);
  }

  /** Everything has ended in good order. */
  async dismiss(): Promise<void> {
    const { stdin, exitCode, signalCode } = this.#shell;
    if (exitCode !== null || signalCode !== null || this.#shell.pid === undefined) return;
    this.#shell.ref();
    const gone = new Promise<void>((resolve) => this.#shell.once('exit', () => resolve()));
    stdin?.end('done\n');
    await gone;
  }
}
