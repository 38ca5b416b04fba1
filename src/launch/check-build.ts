// `horovodrun --check-build`: what this installation can do, in Python Horovod's layout, and why not the rest.

import type { Settings } from '../settings/table.ts';
import { describeNative } from '../transport/native/load.ts';
import { describeMpi, findMpirun } from './mpirun/mpi-family.ts';

type Described = ReturnType<typeof describeNative>;

export async function checkBuild(
  version: string,
  settings: Settings,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  const search = { native: settings.native, nativePath: settings.nativePath };
  const native = describeNative(search);
  // Open MPI and MPICH need an addon each, and a job that of the mpirun which starts it.
  const openMpi = describeNative({ ...search, transport: 'mpi', launcher: { kind: 'open-mpi' } });
  const mpich = describeNative({ ...search, transport: 'mpi', launcher: { kind: 'pmi' } });
  const gloo = describeNative({ ...search, transport: 'gloo' });
  const mpirun = await findMpirun(settings.mpirun, env);
  const launcher = typeof mpirun === 'string' ? mpirun : `${describeMpi(mpirun)}, --mpi`;
  return `Horovod for TypeScript v${version}:

Available Frameworks:
${framework('TensorFlow.js', '@tensorflow/tfjs')}
${framework('jax-js', '@jax-js/jax')}

Available Controllers:
${box(true, 'horovodrun', 'this host, and others by ssh')}
${box(typeof mpirun !== 'string', 'MPI', launcher)}
${box(gloo.built, 'Gloo', gloo.built ? '--gloo' : why(gloo))}

Available Tensor Operations:
${box(native.built, 'shm (native)', native.built ? (native.path ?? '') : why(native))}
${box(native.built, 'tcp (native)', native.built ? 'between hosts' : why(native))}
${box(true, 'portable', 'TypeScript and WebAssembly')}
${box(false, 'NCCL', 'not in this version')}
${box(openMpi.built, 'MPI: Open MPI', openMpi.built ? (openMpi.path ?? '') : why(openMpi))}
${box(mpich.built, 'MPI: MPICH', mpich.built ? (mpich.path ?? '') : why(mpich))}
${box(gloo.built, 'Gloo', gloo.built ? (gloo.path ?? '') : why(gloo))}
`;
}

function why({ reason }: Described): string {
  return reason ?? 'not built';
}

/** Frameworks are peer dependencies: there if the project that uses Horovod has installed them. */
function framework(name: string, packageName: string): string {
  const isInstalled = canImport(packageName);
  return box(isInstalled, name, isInstalled ? packageName : `npm install ${packageName}`);
}

function canImport(packageName: string): boolean {
  try {
    return import.meta.resolve(packageName) !== '';
  } catch {
    return false;
  }
}

function box(isAvailable: boolean, name: string, remark: string): string {
  return `    [${isAvailable ? 'X' : ' '}] ${name}${remark === '' ? '' : ` (${remark})`}`;
}
