// The file systems as a program has them, with settings of a test.

import { Files } from '../../src/files/registry.ts';
import { readSettings } from '../../src/settings/read-settings.ts';
import type { FileSettings } from '../../src/settings/table.ts';

/** As in an empty environment, but for these settings. */
export function filesForTests(settings: Partial<FileSettings> = {}): Files {
  return new Files(settingsForTests(settings));
}

export function settingsForTests(settings: Partial<FileSettings> = {}): FileSettings {
  return { ...readSettings({}), ...settings };
}
