// Places in the repository, for tests: they run from a folder of compiled files, whose depth is nobody's business.

import { join } from 'node:path';
import { packageRoot } from '../../src/settings/package.ts';

/** The repository's root. */
export const repository: string = packageRoot();

/** A script or data file below test/fixtures. */
export function fixturePath(name: string): string {
  return join(repository, 'test/fixtures', name);
}
