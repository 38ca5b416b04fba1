// `horovodrun --check-build`: what this installation can do, in Python Horovod's layout, and why not the rest.

import { describeNative } from '../native/load.ts';
import type { Settings } from '../settings/table.ts';

export function checkBuild(version: string, settings: Settings): string {
  const native = describeNative({ native: settings.native, nativePath: settings.nativePath });
  return `Horovod for TypeScript v${version}:

Available Frameworks:
${framework('TensorFlow.js', '@tensorflow/tfjs')}
${framework('jax-js', '@jax-js/jax')}

Available Controllers:
${box(true, 'horovodrun', 'ranks of one host')}
${box(false, 'MPI', 'not in this version')}
${box(false, 'Gloo', 'not in this version')}

Available Tensor Operations:
${box(native.built, 'shm (native)', native.built ? (native.path ?? '') : (native.reason ?? 'not built'))}
${box(true, 'portable', 'TypeScript and WebAssembly')}
${box(false, 'NCCL', 'not in this version')}
${box(false, 'MPI', 'not in this version')}
${box(false, 'Gloo', 'not in this version')}
`;
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
