// The one table of settings. Each is one entry: variable, flags, key of the config file, kind, default and one
// sentence. Reading the environment, the flags of horovodrun, its --help, the config file and the reference page
// all come from here. A flag or config key is worth the text its environment variable would have; given by both,
// the flag wins over the file and the file over the environment. The entries stand in table/, by group.

import { autotuneSettings } from './table/autotune.ts';
import { collectiveSettings } from './table/collectives.ts';
import { givenSettings } from './table/given.ts';
import { severalHostsSettings } from './table/several-hosts.ts';
import { startingSettings } from './table/starting.ts';
import { timelineSettings } from './table/timeline.ts';
import { watchingSettings } from './table/watching.ts';
import type { SettingsOf, TableSettings } from './types.ts';

export { launchTable } from './table/launch-options.ts';
export type {
  Flag,
  LaunchOptions,
  LogFormat,
  LogLevel,
  OverlapChoice,
  Setting,
  SettingGroup,
  Settings,
  TableSettings,
  TransportChoice,
} from './types.ts';
export { settingGroups } from './types.ts';

export const settingsTable: SettingsOf<keyof TableSettings> = {
  ...startingSettings,
  ...collectiveSettings,
  ...severalHostsSettings,
  ...autotuneSettings,
  ...watchingSettings,
  ...timelineSettings,
  ...givenSettings,
};
