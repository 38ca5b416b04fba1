// Finds and loads the native addon, or explains why there is none. There are three kinds with the same exports: the main
// one, and those of mpi and gloo, which are linked with the library of that name. A process uses one of them.
// An explicit path (HOROVOD_NATIVE_PATH; the others lie beside it) comes before the places of places.ts.

import { existsSync, readdirSync } from 'node:fs';
import { createRequire, Module } from 'node:module';
import { constants } from 'node:os';
import path from 'node:path';
import { interfaceVersion, type NativeAddon } from './addon.ts';
import { buildCommand, findMainAddon, lackOfAddon, lackOfTransport } from './places.ts';

const glooAddon = 'horovod-gloo.node';

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
  const found = findNative(search);
  return 'reason' in found ? { built: false, reason: found.reason } : loadAddon(found.file);
}

export type Found = { readonly file: string; readonly isMain: boolean } | { readonly reason: string };

export function findNative(search: NativeSearch): Found {
  if (search.native === false) return { reason: 'HOROVOD_NATIVE=0' };
  const main = search.nativePath ?? findMainAddon();
  if (main === undefined) return { reason: lackOfAddon() };
  if (!existsSync(main)) return { reason: `HOROVOD_NATIVE_PATH names ${main}, which does not exist` };
  const { transport } = search;
  if (transport === 'mpi') return findMpi(path.dirname(main), search.launcher?.kind);
  if (transport === 'gloo') return findGloo(path.dirname(main));
  return { file: main, isMain: true };
}

export function loadAddon(file: string): NativeResult {
  try {
    const addon = requireAddon(path.resolve(file));
    if (addon.interfaceVersion !== interfaceVersion) return { built: false, reason: otherSources(file) };
    return { built: true, addon, path: file };
  } catch (error) {
    return { built: false, reason: doesNotLoad(file, (error as Error).message) };
  }
}

/** The addon for gloo replaces a function of the C library for libgloo; NOTE [Connections that are reset while gloo opens them]. */
function requireAddon(file: string): NativeAddon {
  const require = createRequire(import.meta.url);
  const { RTLD_LAZY, RTLD_DEEPBIND } = constants.dlopen;
  const known = require.cache[file];
  if (path.basename(file) !== glooAddon || RTLD_DEEPBIND === undefined || known !== undefined) {
    return require(file) as NativeAddon;
  }
  const module = Object.assign(Object.create(Module.prototype) as NodeModule, {
    id: file,
    filename: file,
    exports: {},
  });
  process.dlopen(module, file, RTLD_LAZY | RTLD_DEEPBIND);
  require.cache[file] = module;
  return module.exports as NativeAddon;
}

export function otherSources(file: string): string {
  return `${file} was built from other sources; run npm run build`;
}

export function doesNotLoad(file: string, why: string): string {
  return `${file} does not load: ${why}`;
}

/** The addon for the MPI family that started this process. Without mpirun there is only one process, and any will do. */
function findMpi(folder: string, launcher: string | undefined): Found {
  const families = readdirSync(folder).flatMap((name) => /^horovod-mpi-(\w+)\.node$/.exec(name)?.[1] ?? []);
  if (families.length === 0) {
    return { reason: `${lackOfTransport('mpi')}; ${buildCommand('mpi')}` };
  }
  const wanted = launcher === 'open-mpi' ? 'openmpi' : launcher === 'pmi' ? 'mpich' : undefined;
  if (wanted !== undefined && !families.includes(wanted)) {
    const reason =
      `this process was started by ${wanted === 'openmpi' ? 'Open MPI' : 'MPICH'}, and Horovod was built ` +
      `with ${families.includes('mpich') ? 'MPICH' : 'Open MPI'}; HOROVOD_MPICXX=<its mpicxx> ${buildCommand('mpi')}`;
    return { reason };
  }
  const family = wanted ?? (families.includes('openmpi') ? 'openmpi' : families[0]);
  return { file: path.join(folder, `horovod-mpi-${family}.node`), isMain: false };
}

function findGloo(folder: string): Found {
  const file = path.join(folder, glooAddon);
  if (existsSync(file)) return { file, isMain: false };
  return { reason: `${lackOfTransport('gloo')}; ${buildCommand('gloo')}` };
}
