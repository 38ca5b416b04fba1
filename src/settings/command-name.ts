// What users have to type to run a command of this package, for hints in messages. A package that is installed in a project
// has its commands in node_modules/.bin, which is not on the PATH of a shell: npx finds them there. npm and npx put that
// folder on the PATH of what they start, so it does not count.

import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { processEnvironment } from './environment.ts';

/** 'horovod', or 'npx horovod' where a shell would not find it. */
export function typedCommand(
  name: 'horovod' | 'horovodrun',
  env: NodeJS.ProcessEnv = processEnvironment(),
): string {
  const folders = (env['PATH'] ?? '')
    .split(':')
    .filter((folder) => !/(^|\/)node_modules\/\.bin\/?$/.test(folder));
  return folders.some((folder) => isExecutable(join(folder, name))) ? name : `npx ${name}`;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
