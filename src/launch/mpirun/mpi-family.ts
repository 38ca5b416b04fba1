// Which MPI an mpirun is of, by what `mpirun --version` prints; and what it understands.

import { execFile } from 'node:child_process';
import { HorovodError } from '../../errors.ts';

/** hydra: MPICH and those made from it. */
export type MpiFamily = 'open-mpi' | 'spectrum-mpi' | 'mpich' | 'intel-mpi';

export interface Mpirun {
  readonly file: string;
  readonly family: MpiFamily;
  /** '4.1.4', where it says so. */
  readonly version: string | undefined;
}

const familyNames: Readonly<Record<MpiFamily, string>> = {
  'open-mpi': 'Open MPI',
  'spectrum-mpi': 'IBM Spectrum MPI',
  mpich: 'MPICH',
  'intel-mpi': 'Intel MPI',
};

/** 'Open MPI 4.1.4' */
export function describeMpi({ family, version }: Pick<Mpirun, 'family' | 'version'>): string {
  return version === undefined ? familyNames[family] : `${familyNames[family]} ${version}`;
}

/** Undefined for a text that no known MPI prints. */
export function readMpiVersion(text: string): Pick<Mpirun, 'family' | 'version'> | undefined {
  // Spectrum MPI says that it is made from Open MPI, and Intel MPI that it has a hydra.
  const family: MpiFamily | undefined = /IBM Spectrum MPI/.test(text)
    ? 'spectrum-mpi'
    : /Open MPI|OpenRTE/.test(text)
      ? 'open-mpi'
      : /Intel\(R\) MPI/.test(text)
        ? 'intel-mpi'
        : /MPICH|HYDRA/.test(text)
          ? 'mpich'
          : undefined;
  if (family === undefined) return undefined;
  return { family, version: /(?:Version:?\s+|\) |MPI )(\d+(?:\.\d+)+)/.exec(text)?.[1] };
}

/** Why there is none, as a sentence without end: for --check-build. */
export async function findMpirun(
  file: string,
  env: NodeJS.ProcessEnv,
  timeoutMs = 5000,
): Promise<Mpirun | string> {
  const { error, output } = await new Promise<{ error: Error | null; output: string }>((resolve) => {
    execFile(file, ['--version'], { env, timeout: timeoutMs, killSignal: 'SIGKILL' }, (error, stdout) =>
      resolve({ error, output: stdout }),
    );
  });
  if (error !== null) {
    const { code, killed } = error as NodeJS.ErrnoException & { killed?: boolean };
    if (code === 'ENOENT') return `${file} is not in the PATH`;
    if (killed) return `\`${file} --version\` gave no answer within ${timeoutMs / 1000} s`;
    return `\`${file} --version\` failed (${code ?? error.message})`;
  }
  const found = readMpiVersion(output);
  if (found === undefined) {
    return `\`${file} --version\` prints ${JSON.stringify(output.split('\n', 1)[0])}, which is no MPI known here`;
  }
  return { file, ...found };
}

export async function requireMpirun(
  file: string,
  env: NodeJS.ProcessEnv,
  timeoutMs: number,
): Promise<Mpirun> {
  const found = await findMpirun(file, env, timeoutMs);
  if (typeof found !== 'string') return found;
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    `no MPI to start the job with: ${found}. Install Open MPI or MPICH, name the program with HOROVOD_MPIRUN, or ` +
      'leave --mpi (HOROVOD_TRANSPORT=mpi) away: horovodrun reaches other hosts by ssh alone.',
  );
}
