// Finds and loads the native addon, and explains why there is none. Order: an explicit path
// (HOROVOD_NATIVE_PATH), then the build inside this package, which `npm pack` of a built checkout carries.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { interfaceVersion, type NativeAddon } from './addon.ts';

export interface NativeSearch {
  /** False: the user asked for the portable plane. */
  readonly native?: boolean | undefined;
  readonly nativePath?: string | undefined;
}

export type NativeResult =
  | { readonly built: true; readonly addon: NativeAddon; readonly path: string }
  | { readonly built: false; readonly reason: string };

export function loadNative(search: NativeSearch = {}): NativeResult {
  if (search.native === false) return { built: false, reason: 'HOROVOD_NATIVE=0' };
  const file = search.nativePath ?? builtAddonPath();
  if (!existsSync(file)) {
    const reason =
      search.nativePath === undefined
        ? `it was not built for this platform (${process.platform} ${process.arch})`
        : `HOROVOD_NATIVE_PATH names ${file}, which does not exist`;
    return { built: false, reason };
  }
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

/** For `horovodrun --check-build`. */
export function describeNative(search: NativeSearch = {}): {
  built: boolean;
  reason?: string;
  path?: string;
} {
  const result = loadNative(search);
  return result.built ? { built: true, path: result.path } : { built: false, reason: result.reason };
}

function builtAddonPath(): string {
  const here = path.dirname(fileURLToPath(import.meta.url));
  return path.join(here, '../../native/build/horovod.node');
}
