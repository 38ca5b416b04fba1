// Real ranks for tests: runs horovodrun on a script and gives back what each rank has written.

import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface SpawnRanksOptions {
  /** Arguments of the script. */
  readonly args?: readonly string[];
  /** Flags of horovodrun, besides -np. */
  readonly flags?: readonly string[];
  /** Added to the environment of this process. */
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Against hanging, not against slowness: after it everything is killed. */
  readonly timeoutMs?: number;
  /** False: the portable transport. */
  readonly native?: boolean;
}

export interface SpawnRanksResult {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  /** All of it, with prefixes. */
  readonly stdout: string;
  readonly stderr: string;
  /** What each rank has written, without prefixes. */
  readonly ranks: readonly { readonly stdout: string; readonly stderr: string }[];
}

/** Runs `horovodrun -np <np> <scriptPath>` to its end, whatever its exit code. */
export async function spawnRanks(
  np: number,
  scriptPath: string,
  options: SpawnRanksOptions = {},
): Promise<SpawnRanksResult> {
  const { args = [], flags = [], timeoutMs = 60_000, ...rest } = options;
  const run = startHorovodrun(['-np', String(np), ...flags, '--', scriptPath, ...args], rest);
  const deadline = setTimeout(() => run.child.kill('SIGKILL'), timeoutMs);
  const { exitCode, signal } = await run.ended;
  clearTimeout(deadline);
  const { stdout, stderr } = run;
  if (signal === 'SIGKILL') {
    throw new Error(
      `${scriptPath} with ${np} ranks was not over after ${timeoutMs / 1000} s.\n${transcript(run)}`,
    );
  }
  return { exitCode, signal, stdout, stderr, ranks: outputOfRanks(np, { stdout, stderr }) };
}

/** What each rank has written, from the launcher's output with prefixes. */
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
  /** What has come so far. */
  readonly stdout: string;
  readonly stderr: string;
  /** Settles when the launcher has ended and its output is read. */
  readonly ended: Promise<{ exitCode: number | null; signal: NodeJS.Signals | null }>;
  /** Resolves with the match as soon as stdout has one; rejects with the transcript if the launcher ends before. */
  waitForOutput(pattern: RegExp): Promise<RegExpExecArray>;
}

/** Starts horovodrun with these arguments, and leaves it to the caller. */
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
    waitForOutput(pattern) {
      return new Promise((resolve, reject) => {
        const look = () => {
          const match = pattern.exec(run.stdout);
          if (match === null) return;
          child.stdout.off('data', look);
          resolve(match);
        };
        child.stdout.on('data', look);
        look();
        void run.ended.then(() => reject(new Error(`${pattern} never came.\n${transcript(run)}`)));
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
