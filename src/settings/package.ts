// This package: where it lies and which version it is. Found through its own name, so that the depth of the calling
// file does not matter.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';

/** The folder of package.json. */
export function packageRoot(): string {
  return dirname(createRequire(import.meta.url).resolve('horovod/package.json'));
}

/** The version in package.json. */
export function packageVersion(): string {
  const manifest = createRequire(import.meta.url).resolve('horovod/package.json');
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version;
}
