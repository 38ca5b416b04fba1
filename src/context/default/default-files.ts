// The file systems of this process: the built-in ones, and those that registerFileSystem() has added. Apart from the default context,
// because most ranks start without them.

import { Files } from '../../files/registry.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';

const files = new Files(() => readSettings(processEnvironment()));

/** Works before init() too. */
export function defaultFiles(): Files {
  return files;
}
