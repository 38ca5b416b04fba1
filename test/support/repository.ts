// Paths in the repository, for tests, which run from a folder of compiled files.

import { join } from 'node:path';
import { packageRoot } from '../../src/settings/package.ts';

/** The repository's root. */
export const repository: string = packageRoot();

/**
 * A script or data file below test/fixtures. Scripts in TypeScript are compiled like the tests (see test/tsconfig.json);
 * use `sourcePath()` for scripts that must stay TypeScript.
 */
export function fixturePath(name: string): string {
  if (!name.endsWith('.ts')) return sourcePath(name);
  return join(repository, '.dist-test/test/fixtures', name.replace(/\.ts$/, '.js'));
}

/** A file below test/fixtures, not compiled. */
export function sourcePath(name: string): string {
  return join(repository, 'test/fixtures', name);
}
