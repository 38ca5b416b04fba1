// --tensorboard: the real TensorBoard, beside a job and only for users of this machine: TensorBoard has no login and does not check who
// asks, so it listens on loopback. It starts while the ranks do, and ends with the job. A guardian ends it if the launcher is killed.
// That it is missing, or that its port is taken, is a message: training goes on.

import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { delimiter, join } from 'node:path';
import { deferred } from '../deferred.ts';
import { pathThroughJupyterHub } from '../job-parts/jupyter-hub.ts';
import { within } from '../job-parts/within.ts';
import { Guardian } from '../spawn/guardian.ts';

export interface TensorBoardRequest {
  /** HOROVOD_TENSORBOARD */
  readonly command: string | undefined;
  /** A folder or a URL. */
  readonly dir: string;
  /** 0: any free one. */
  readonly port: number;
  readonly environment: NodeJS.ProcessEnv;
  readonly say: (text: string) => void;
  /** Nobody has asked for it: nothing is said if it is not installed. */
  readonly isOptional?: boolean | undefined;
  /** The page is up. */
  readonly onUrl?: ((url: string) => void) | undefined;
}

const loopback = '127.0.0.1';
/** It takes two seconds, and ten on a crowded machine. */
const startMs = 60_000;
const stopMs = 2000;
const keptText = 4096;

export class TensorBoardProcess {
  /** Its URL, once it is up; undefined: it has ended without. */
  readonly up: Promise<string | undefined>;
  readonly #child: ChildProcess;
  readonly #guardian: Guardian;
  readonly #exited: Promise<unknown>;
  readonly #timer: NodeJS.Timeout;
  #isStopping = false;
  #isUnreadable = false;

  private constructor(request: TensorBoardRequest) {
    const { dir, port, environment, say, isOptional, onUrl } = request;
    const [program, ...words] = findTensorBoard(request);
    const args = [...words, '--logdir', dir, '--host', loopback, '--port', String(port)];
    this.#guardian = Guardian.start(`tensorboard-${randomBytes(8).toString('hex')}`, environment['PATH']);
    // A group of its own: Ctrl-C in the terminal is for the job, which may write more.
    this.#child = spawn(program, args, {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: environment,
    });
    const { pid, stdout, stderr } = this.#child;
    if (pid !== undefined) {
      this.#guardian.add(pid);
      lowerPriority(pid);
    }
    let text = '';
    let isUp = false;
    const up = deferred<string | undefined>();
    this.up = up.promise;
    const look = (part: string) => {
      text = (text + part).slice(-keptText);
      this.#tellUnreadable(text, request);
      const url = isUp ? undefined : /TensorBoard \S+ at (http:\/\/\S+)/.exec(text)?.[1];
      if (url === undefined) return;
      isUp = true;
      clearTimeout(this.#timer);
      const hubPath = pathThroughJupyterHub(new URL(url).port, environment);
      say(
        `TensorBoard shows ${dir} at ${url}${hubPath === undefined ? '' : `, through JupyterHub at ${hubPath}`}`,
      );
      onUrl?.(url);
      up.resolve(url);
    };
    for (const stream of [stdout, stderr]) stream?.setEncoding('utf8').on('data', look);
    this.#timer = setTimeout(() => {
      say(`TensorBoard has not started within ${startMs / 1000} s and is ended: ${lastLine(text)}`);
      void this.stop();
    }, startMs);
    this.#timer.unref();
    this.#exited = new Promise<number | null>((resolve) => {
      this.#child.once('error', () => resolve(1));
      this.#child.once('close', resolve);
    }).then((code) => {
      clearTimeout(this.#timer);
      up.resolve(undefined);
      if (pid !== undefined) this.#guardian.remove(pid);
      // Ended by us: with SIGTERM, or by itself after it.
      if (this.#isStopping && (code === 0 || code === null)) return;
      if (isOptional && !isUp && isMissing(text)) return;
      say(isUp ? `TensorBoard has ended: ${lastLine(text)}` : problemOf(text, port));
    });
  }

  /** Returns at once; the URL is said as soon as the page is up. */
  static start(request: TensorBoardRequest): TensorBoardProcess {
    return new TensorBoardProcess(request);
  }

  /** Resolves when it has ended by itself, or by stop(). */
  get ended(): Promise<unknown> {
    return this.#exited;
  }

  /** It goes on without reading anything, and says so in a traceback. */
  #tellUnreadable(text: string, { dir, say }: TensorBoardRequest): void {
    if (this.#isUnreadable || !/No recognized filesystem for prefix/.test(text)) return;
    this.#isUnreadable = true;
    say(
      `TensorBoard cannot read ${dir}: it needs the Python package fsspec, and one for that server. Or copy the folder to this host, and start TensorBoard for the copy. Training goes on.`,
    );
  }

  /** Resolves when it has ended. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#timer);
    this.#child.kill('SIGTERM');
    await within(this.#exited, stopMs);
    this.#child.kill('SIGKILL');
    await this.#exited;
    await this.#guardian.dismiss();
  }
}

/** The words of the command that starts it. */
function findTensorBoard({ command, environment }: TensorBoardRequest): [string, ...string[]] {
  if (command !== undefined) return [command];
  const { PATH: path = '', VIRTUAL_ENV: virtual } = environment;
  const folders = [...path.split(delimiter), ...(virtual === undefined ? [] : [join(virtual, 'bin')])];
  const found = folders.map((folder) => join(folder, 'tensorboard')).find((file) => existsSync(file));
  return found === undefined ? ['python3', '-m', 'tensorboard.main'] : [found];
}

function problemOf(text: string, port: number): string {
  if (/already in use|could not bind/i.test(text))
    return `TensorBoard cannot listen on port ${port}: it is in use. Leave the port out of --tensorboard, and a free one is taken. Training goes on.`;
  if (isMissing(text))
    return 'TensorBoard is not installed, so it does not run beside the job. Install it with `pip install tensorboard`, or name the program in HOROVOD_TENSORBOARD. Training goes on.';
  return `TensorBoard could not be started: ${lastLine(text)} Training goes on.`;
}

function isMissing(text: string): boolean {
  return text === '' || /No module named '?tensorboard/.test(text);
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.slice(0, 300) || 'it printed nothing.';
}

/** Ranks need the processor more. */
function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // It has ended already, or the system forbids it.
  }
}
