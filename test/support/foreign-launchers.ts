// For tests of jobs that other launchers start: reads the lines that ranks write (test/fixtures/faults/say.ts) from output without
// rank prefixes, and provides an environment without variables of a job.

import { spawn } from 'node:child_process';

export interface Here {
  readonly rank: number;
  readonly size: number;
  readonly local: readonly [number, number];
  readonly cross: readonly [number, number];
  readonly sum: number;
  readonly host: string;
  readonly transport: string;
}

export interface ForeignResult {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The tests themselves may run inside a job, whose variables are removed. */
export function jobless(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  const given = /^(HOROVOD|OMPI|PMI|PMIX|SLURM|MPI)_|^JOB_COMPLETION_INDEX$/;
  return Object.fromEntries(Object.entries(env).filter(([name]) => !given.test(name)));
}

/** Runs a command on this machine to its end. Kills it and rejects if it takes too long. */
export async function runCommand(
  argv: readonly string[],
  env: NodeJS.ProcessEnv = {},
  timeoutMs = 60_000,
): Promise<ForeignResult> {
  const [command = '', ...args] = argv;
  const child = spawn(command, args, {
    env: { ...jobless(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A process group, so that everything that it has started is killed with it.
    detached: true,
  });
  const [stdout, stderr]: string[][] = [[], []];
  child.stdout.setEncoding('utf8').on('data', (text: string) => stdout?.push(text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => stderr?.push(text));
  let isLate = false;
  const deadline = setTimeout(() => {
    isLate = true;
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  }, timeoutMs);
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  clearTimeout(deadline);
  const result = { exitCode, stdout: stdout?.join('') ?? '', stderr: stderr?.join('') ?? '' };
  if (isLate)
    throw new Error(
      `${argv.join(' ')} was still running after ${timeoutMs / 1000} s.\n${describeResult(result)}`,
    );
  return result;
}

/** The texts that ranks wrote after this word, in the order of lines. */
export function saidIn<T>(results: readonly ForeignResult[], word: string): T[] {
  const lines = results.flatMap(({ stdout }) => stdout.split(/\r?\n/));
  const start = `${word} `;
  return lines
    .filter((line) => line.startsWith(start))
    .map((line) => JSON.parse(line.slice(start.length)) as T);
}

export function describeResult({ exitCode, stdout, stderr }: ForeignResult): string {
  return `exit code ${exitCode}\nstdout:\n${stdout}\nstderr:\n${stderr}`;
}
