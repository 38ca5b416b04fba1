// Where the addon may be. In a clone it lies in native/build. Users of the package have it from one of the platform packages, which npm
// installs as optional dependencies of ours, or have built it with `horovod build`, which is the only way to get the addons of mpi and
// gloo; those lie beside the main one.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import path from 'node:path';
import { libcOfThisNode } from '../../settings/libc.ts';
import { packageRoot, packageVersion } from '../../settings/package.ts';

export const mainAddon = 'horovod.node';

export interface Places {
  /** The folder of this package. */
  readonly root: string;
  readonly version: string;
  readonly platform: string;
  readonly arch: string;
  readonly libc: 'gnu' | 'musl';
  readonly home: string;
}

export function places(): Places {
  return {
    root: packageRoot(),
    version: packageVersion(),
    platform: process.platform,
    arch: process.arch,
    libc: libcOfThisNode(),
    home: homedir(),
  };
}

/** The first addon that exists; its folder may have those of mpi and gloo. */
export function findMainAddon(given: Places = places()): string | undefined {
  const candidates = [
    ...buildFolders(given).map((folder) => path.join(folder, mainAddon)),
    path.join(given.root, 'native/build', mainAddon),
    platformAddon(given),
  ];
  return candidates.find((file) => file !== undefined && existsSync(file));
}

/** The folders that `horovod build` writes to: that of the project that has installed this package, and that of the user. */
export function buildFolders(given: Places = places()): string[] {
  const key = `${given.version}-${given.platform}-${given.arch}-${given.libc}`;
  const project = projectFolder(given);
  return [
    ...(project === undefined ? [] : [path.join(project, '.horovod', key)]),
    path.join(given.home, '.cache/horovod', key),
  ];
}

/** The folder whose node_modules contains this package; undefined in a clone. */
export function projectFolder({ root }: Pick<Places, 'root'>): string | undefined {
  const at = root.split(path.sep).indexOf('node_modules');
  return at < 0 ? undefined : root.split(path.sep).slice(0, at).join(path.sep) || path.sep;
}

/** The npm package with the addon for this platform. */
export function platformPackage({ platform, arch, libc }: Places): string {
  return `horovod-${platform}-${arch}-${libc}`;
}

function platformAddon(given: Places): string | undefined {
  try {
    return createRequire(path.join(given.root, 'package.json')).resolve(
      `${platformPackage(given)}/${mainAddon}`,
    );
  } catch {
    return undefined;
  }
}

/** What to do where there is no addon at all. */
export function lackOfAddon(given: Places = places()): string {
  const { platform, arch } = given;
  if (platform !== 'linux') return `there is none for ${platform} ${arch}`;
  if (projectFolder(given) === undefined) {
    return `it was not built for this platform (${platform} ${arch}); run npm run build, with a C++ compiler`;
  }
  const name = platformPackage(given);
  return `the package ${name} is not installed; run npm install without --omit=optional, or npx horovod build`;
}

/** Why there is no addon for mpi or gloo. Packages for platforms never have them. */
export function lackOfTransport(transport: 'mpi' | 'gloo', given: Pick<Places, 'root'> = places()): string {
  if (projectFolder(given) !== undefined) return 'it is built on your machine, and has not been yet';
  return transport === 'mpi'
    ? 'there was no mpicxx when Horovod was built'
    : 'libgloo was not installed when Horovod was built';
}

/** The command that builds the addon for mpi or gloo. */
export function buildCommand(transport: 'mpi' | 'gloo', given: Places = places()): string {
  return projectFolder(given) === undefined
    ? `HOROVOD_WITH_${transport.toUpperCase()}=1 npm run build`
    : `npx horovod build --${transport}`;
}
