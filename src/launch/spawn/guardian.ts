// The guardian ends the ranks when the launcher cannot: one shell in a session of its own that reads the
// launcher's pipe. Only the launcher holds the other end, so the pipe ends when the launcher does, however it
// ended, SIGKILL included. Without the word `done` before it, every process group still listed gets SIGKILL.
// A shell and not an addon, because it works everywhere and cannot be taken down by what takes the launcher down.

import { type ChildProcess, spawn } from 'node:child_process';

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
for group in $groups; do kill -KILL -- "-$group" 2>/dev/null; done
`;

export class Guardian {
  readonly #shell: ChildProcess;

  private constructor(shell: ChildProcess) {
    this.#shell = shell;
  }

  static start(): Guardian {
    const shell = spawn('/bin/sh', ['-c', script, 'horovodrun-guardian'], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      // Nothing of the job: neither its secret nor a directory that somebody wants to unmount.
      env: { PATH: '/usr/bin:/bin' },
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
