// Finds and loads the native addon, or explains why there is none. There are three kinds with the same exports: the main
// one, and those of mpi and gloo, which are linked with the library of that name. A process uses one of them.
// An explicit path (HOROVOD_NATIVE_PATH; the others lie beside it) comes first, then the build inside this package, which
// `npm pack` of a built checkout includes.

import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { packageRoot } from '../../settings/package.ts';
import { interfaceVersion, type NativeAddon } from './addon.ts';

export interface NativeSearch {
  /** False: the user asked for the portable transport. */
  readonly native?: boolean | undefined;
  readonly nativePath?: string | undefined;
  /** The transport that the addon is for; 'mpi' and 'gloo' have separate addons. */
  readonly transport?: string | undefined;
  /** What started this process: mpirun of Open MPI and that of MPICH need different addons. */
  readonly launcher?: { readonly kind: string } | undefined;
}

export type NativeResult =
  | { readonly built: true; readonly addon: NativeAddon; readonly path: string }
  | { readonly built: false; readonly reason: string };

export function loadNative(search: NativeSearch = {}): NativeResult {
  if (search.native === false) return { built: false, reason: 'HOROVOD_NATIVE=0' };
  const main = search.nativePath ?? builtAddonPath();
  if (!existsSync(main)) {
    const reason =
      search.nativePath === undefined
        ? `it was not built for this platform (${process.platform} ${process.arch})`
        : `HOROVOD_NATIVE_PATH names ${main}, which does not exist`;
    return { built: false, reason };
  }
  const { transport } = search;
  if (transport === 'mpi') return loadMpi(path.dirname(main), search.launcher?.kind);
  if (transport === 'gloo') return loadGloo(path.dirname(main));
  return load(main);
}

/** For `horovodrun --check-build`. */
export function describeNative(search: NativeSearch = {}): {
  built: boolean;
  reason?: string;
  path?: string;
} {
  const result = loadNative(search);
  return result.built ? { built: true, path: result.path } : { built: false, reason: result.reason };
}

function load(file: string): NativeResult {
  try {
    const addon = createRequire(import.meta.url)(path.resolve(file)) as NativeAddon;
    if (addon.interfaceVersion !== interfaceVersion) {
      return { built: false, reason: `${file} was built from other sources; run npm run build` };
    }
    return { built: true, addon, path: file };
  } catch (error) {
    return { built: false, reason: `${file} does not load: ${(error as Error).message}` };
  }
}

/** The addon for the MPI family that started this process. Without mpirun there is only one process, and any will do. */
function loadMpi(folder: string, launcher: string | undefined): NativeResult {
  const families = readdirSync(folder).flatMap((name) => /^horovod-mpi-(\w+)\.node$/.exec(name)?.[1] ?? []);
  if (families.length === 0) {
    return {
      built: false,
      reason: 'there was no mpicxx when Horovod was built; HOROVOD_WITH_MPI=1 npm run build',
    };
  }
  const wanted = launcher === 'open-mpi' ? 'openmpi' : launcher === 'pmi' ? 'mpich' : undefined;
  if (wanted !== undefined && !families.includes(wanted)) {
    const reason =
      `this process was started by ${wanted === 'openmpi' ? 'Open MPI' : 'MPICH'}, and Horovod was built ` +
      `with ${families.includes('mpich') ? 'MPICH' : 'Open MPI'}; HOROVOD_MPICXX=<its mpicxx> HOROVOD_WITH_MPI=1 npm run build`;
    return { built: false, reason };
  }
  const family = wanted ?? (families.includes('openmpi') ? 'openmpi' : families[0]);
  return load(path.join(folder, `horovod-mpi-${family}.node`));
}

function loadGloo(folder: string): NativeResult {
  const file = path.join(folder, 'horovod-gloo.node');
  if (existsSync(file)) return load(file);
  return {
    built: false,
    reason: 'libgloo was not installed when Horovod was built; HOROVOD_WITH_GLOO=1 npm run build',
  };
}

function builtAddonPath(): string {
  return path.join(packageRoot(), 'native/build/horovod.node');
}
