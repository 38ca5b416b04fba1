// `horovodrun --check-build`: what this installation supports, and why not the rest, in Python Horovod's layout.

import type { Settings } from '../settings/table.ts';
import { describeNative } from '../transport/native/describe-native.ts';
import { loadNative, type NativeSearch } from '../transport/native/load.ts';
import { describeMpi, findMpirun } from './mpirun/mpi-family.ts';

export async function checkBuild(
  version: string,
  settings: Settings,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  const search = { native: settings.native, nativePath: settings.nativePath };
  const native = describeNative(search);
  // Open MPI and MPICH need an addon each; a job uses the one that matches its mpirun.
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
${box(true, 'horovodrun', 'this host, and other hosts over ssh')}
${box(typeof mpirun !== 'string', 'MPI', launcher)}
${addon('Gloo', gloo, '--gloo')}

Available Training Kernels (backend wasm):
${computing(settings)}
${box(true, 'WebAssembly', 'used without the addon')}

Available Tensor Operations:
${addon('shm (native)', native)}
${addon('tcp (native)', native, `between hosts; --encrypt ${encryptionOf(search)}`)}
${box(true, 'portable', 'TypeScript and WebAssembly; between hosts, --encrypt works')}
${box(false, 'NCCL', 'not supported')}
${addon('MPI: Open MPI', openMpi)}
${addon('MPI: MPICH', mpich)}
${addon('Gloo', gloo)}
`;
}

/** Whether the addon finds a cipher in this Node. */
function encryptionOf(search: NativeSearch): string {
  const native = loadNative(search);
  const lack = native.built ? native.addon.encryptionLack : '';
  return lack === '' ? 'works' : `does not work: this Node does not export ${lack} of OpenSSL`;
}

/** Which of the addon's sets this processor gets. */
function computing(settings: Settings): string {
  const name = 'native';
  const native = loadNative({ native: settings.native, nativePath: settings.nativePath });
  if (!settings.nativeKernels) return box(false, name, 'HOROVOD_NATIVE_KERNELS=0');
  if (!native.built) return box(false, name, native.reason);
  return box(true, name, native.addon.computeKernels()?.set ?? '');
}

/** With its path or `remark`, or the reason why it is missing. */
function addon(name: string, found: ReturnType<typeof describeNative>, remark = found.path ?? ''): string {
  return box(found.built, name, found.built ? remark : (found.reason ?? 'not built'));
}

/** Frameworks are peer dependencies, which the project that uses Horovod installs. */
function framework(name: string, packageName: string): string {
  const isInstalled = canImport(packageName);
  return box(isInstalled, name, isInstalled ? packageName : `not installed: npm install ${packageName}`);
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
