// The guardian kills the ranks when the launcher cannot: a shell in a separate session that reads the launcher's pipe. The
// pipe ends when the launcher does, even by SIGKILL. Unless the word `done` came before, every listed process group then
// gets SIGKILL, and so does every process whose environment contains the job id (or the place of a job that shares the machine with
// other places of it): a rank that was just being started, or
// one that has left its group. That search is repeated for two seconds, because a process between fork and exec does not
// have its environment yet. It is a shell and not an addon, because a shell works everywhere and does not fail together
// with the launcher.

import { type ChildProcess, spawn } from 'node:child_process';
import { settingsTable } from '../../settings/table.ts';

// $1 is the line of the environment to search for. `kill` is tried in two ways, because dash does not know `-KILL --` and
// other shells do not know `-s`. Without /proc, only the groups are killed.
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

  /** `path`: the PATH for its commands. `place`: what it guards is not all of the job on this machine, but that place. */
  static start(jobId: string, path: string | undefined, place?: string): Guardian {
    const line =
      place === undefined ? `${settingsTable.jobId.env}=${jobId}` : `${settingsTable.place.env}=${place}`;
    const shell = spawn('/bin/sh', ['-c', script, 'horovodrun-guardian', line], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      // Neither the secret of the job nor a directory that somebody may want to unmount.
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

  /** The group is killed if the launcher dies. */
  add(group: number): void {
    this.#shell.stdin?.write(`add ${group}\n`);
  }

  /** The group has ended; its number may be reused. */
  remove(group: number): void {
    this.#shell.stdin?.write(`remove ${group}\n`);
  }

  /** Everything has ended, and nothing is to be killed. */
  async dismiss(): Promise<void> {
    const { stdin, exitCode, signalCode } = this.#shell;
    if (exitCode !== null || signalCode !== null || this.#shell.pid === undefined) return;
    this.#shell.ref();
    const gone = new Promise<void>((resolve) => this.#shell.once('exit', () => resolve()));
    stdin?.end('done\n');
    await gone;
  }
}
