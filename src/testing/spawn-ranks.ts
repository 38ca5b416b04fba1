// spawnRanks(): runs a script with horovodrun, as real processes, and returns what each rank wrote.

import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { checkFaults, type Fault, nodeOptionsWith } from './faults.ts';

const defaultTimeoutMs = 60_000;

export interface SpawnRanksOptions {
  /** Arguments of the script. */
  readonly args?: readonly string[];
  /** Flags of horovodrun, besides -np. */
  readonly flags?: readonly string[];
  /** Added to the environment of this process. */
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Kills everything after this time. Default: 60 s. */
  readonly timeoutMs?: number;
  /** False: the portable transport. */
  readonly native?: boolean;
  /** What should happen to which rank, and when. */
  readonly faults?: readonly Fault[];
}

export interface SpawnRanksResult {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The whole output of horovodrun. Lines of ranks start with their prefix, such as `[1]<stdout>:`. */
  readonly stdout: string;
  readonly stderr: string;
  /** What each rank wrote, without prefixes. An uncaught error that several ranks end with is with the first of them. */
  readonly ranks: readonly { readonly stdout: string; readonly stderr: string }[];
}

/** Runs `horovodrun -np <np> <scriptPath>` and resolves when it has ended, with any exit code. Rejects after a time-out. */
export async function spawnRanks(
  np: number,
  scriptPath: string,
  options: SpawnRanksOptions = {},
): Promise<SpawnRanksResult> {
  const { args = [], flags = [], timeoutMs = defaultTimeoutMs, faults = [], env = {}, ...rest } = options;
  checkFaults(faults, np);
  const nodeOptions = env['NODE_OPTIONS'] ?? process.env['NODE_OPTIONS'];
  const run = startHorovodrun(['-np', String(np), ...flags, '--', scriptPath, ...args], {
    ...rest,
    env: faults.length === 0 ? env : { ...env, NODE_OPTIONS: nodeOptionsWith(faults, nodeOptions) },
  });
  const deadline = setTimeout(() => run.child.kill('SIGKILL'), timeoutMs);
  const { exitCode, signal } = await run.ended;
  clearTimeout(deadline);
  const { stdout, stderr } = run;
  if (signal === 'SIGKILL') {
    throw new Error(
      `${scriptPath} with ${np} ranks did not end within ${timeoutMs / 1000} s.\n${transcript(run)}`,
    );
  }
  return { exitCode, signal, stdout, stderr, ranks: outputOfRanks(np, { stdout, stderr }) };
}

/** What each rank wrote, from the launcher's output with prefixes. */
export function outputOfRanks(
  np: number,
  { stdout, stderr }: { stdout: string; stderr: string },
): SpawnRanksResult['ranks'] {
  return Array.from({ length: np }, (_, rank) => ({
    stdout: linesOf(stdout, rank, 'stdout'),
    stderr: linesOf(stderr, rank, 'stderr'),
  }));
}

export interface HorovodrunProcess {
  readonly child: ChildProcess;
  /** The output so far. */
  readonly stdout: string;
  readonly stderr: string;
  /** Settles when the launcher has ended and its output is read. */
  readonly ended: Promise<{ exitCode: number | null; signal: NodeJS.Signals | null }>;
  /**
   * Resolves with the match as soon as stdout has one. Rejects with all output, stderr included, if the launcher ends before or
   * `timeoutMs` have passed (default: 60 s). The job goes on then.
   */
  waitForOutput(pattern: RegExp, options?: { readonly timeoutMs?: number }): Promise<RegExpExecArray>;
}

/** Starts `horovodrun <args>` and returns at once: for tests that act while the job runs. The caller must end it. */
export function startHorovodrun(
  args: readonly string[],
  options: Pick<SpawnRanksOptions, 'env' | 'cwd' | 'native'> = {},
): HorovodrunProcess {
  const main = fileURLToPath(new URL('../launch/main.js', import.meta.url));
  const { env = {}, cwd, native } = options;
  const child = spawn(process.execPath, [main, ...args], {
    env: { ...process.env, ...(native === undefined ? {} : { HOROVOD_NATIVE: native ? '1' : '0' }), ...env },
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const pieces = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  child.stdout.on('data', (piece: Buffer) => pieces.stdout.push(piece));
  child.stderr.on('data', (piece: Buffer) => pieces.stderr.push(piece));
  const run: HorovodrunProcess = {
    child,
    get stdout() {
      return Buffer.concat(pieces.stdout).toString('utf8');
    },
    get stderr() {
      return Buffer.concat(pieces.stderr).toString('utf8');
    },
    ended: new Promise((resolve) => {
      child.once('close', (exitCode, signal) => resolve({ exitCode, signal }));
    }),
    waitForOutput(pattern, { timeoutMs = defaultTimeoutMs } = {}) {
      return new Promise((resolve, reject) => {
        const fail = (why: string) => {
          stop();
          reject(new Error(`${pattern} did not appear in stdout ${why}.\n${transcript(run)}`));
        };
        const look = () => {
          const match = pattern.exec(run.stdout);
          if (match === null) return;
          stop();
          resolve(match);
        };
        const stop = () => {
          clearTimeout(deadline);
          child.stdout.off('data', look);
        };
        const deadline = setTimeout(() => fail(`within ${timeoutMs / 1000} s`), timeoutMs);
        child.stdout.on('data', look);
        look();
        void run.ended.then(() => fail('before horovodrun ended'));
      });
    },
  };
  return run;
}

function transcript({ stdout, stderr }: HorovodrunProcess): string {
  return `--- stdout ---\n${stdout}\n--- stderr ---\n${stderr}`;
}

function linesOf(text: string, rank: number, stream: string): string {
  const prefix = `[${rank}]<${stream}>:`;
  return text
    .split(/(?<=\n)/)
    .filter((line) => line.startsWith(prefix))
    .map((line) => line.slice(prefix.length))
    .join('');
}
