// Which MPI an mpirun belongs to, according to `mpirun --version`.

import { execFile } from 'node:child_process';
import { HorovodError } from '../../errors.ts';

export type MpiFamily = 'open-mpi' | 'spectrum-mpi' | 'mpich' | 'intel-mpi';

export interface Mpirun {
  readonly file: string;
  readonly family: MpiFamily;
  /** '4.1.4', if known. */
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
  // Spectrum MPI also mentions Open MPI, and Intel MPI also mentions hydra.
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

/** A string says why there is none, as a clause. */
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
    if (code === 'ENOENT') return `${file} was not found on the PATH`;
    if (killed) return `\`${file} --version\` did not answer within ${timeoutMs / 1000} s`;
    return `\`${file} --version\` failed (${code ?? error.message})`;
  }
  const found = readMpiVersion(output);
  if (found === undefined) {
    return `\`${file} --version\` prints ${JSON.stringify(output.split('\n', 1)[0])}, which is not a known MPI`;
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
    `cannot start the job with mpirun: ${found}. Install Open MPI or MPICH, set HOROVOD_MPIRUN, or omit --mpi ` +
      '(HOROVOD_TRANSPORT=mpi): horovodrun does not need MPI to start ranks on other hosts.',
  );
}
