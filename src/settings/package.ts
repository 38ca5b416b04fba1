// This package: its folder and its version. Both are found through the package's name, so that the depth of the calling
// file does not matter.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** The folder of package.json. */
export function packageRoot(): string {
  return dirname(createRequire(import.meta.url).resolve('horovod/package.json'));
}

/** The version in package.json. */
export function packageVersion(): string {
  const manifest = readFileSync(join(packageRoot(), 'package.json'), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version;
}

/** The bytes of a WASM module that this package ships, such as 'reduce-kernels'. */
export function readWasm(name: string): Uint8Array {
  return readFileSync(join(packageRoot(), 'native/wasm/compiled', `${name}.wasm`));
}
