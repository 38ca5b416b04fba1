// The one table of settings. Each entry has a variable, flags, a config key, a kind, a default and a description. The
// environment, the flags of horovodrun, its --help, the config file and the reference page are all read or written by
// it. A flag or config key stands for the text its environment variable would have; flags win over the file, and the
// file wins over the environment. The entries are in table/.

import type { LauncherEnvironment } from './launcher-environment.ts';
import type { SettingsOf } from './setting.ts';
import { type AutotuneSettings, autotuneSettings } from './table/autotune.ts';
import { type CollectiveSettings, collectiveSettings } from './table/collectives.ts';
import { type DataSettings, dataSettings } from './table/data.ts';
import { type ElasticSettings, elasticSettings } from './table/elastic.ts';
import { type FileSettings, fileSettings } from './table/files.ts';
import { type GivenSettings, givenSettings } from './table/given.ts';
import { type MonitoringSettings, monitoringSettings } from './table/monitoring.ts';
import { type NetworkSettings, networkSettings } from './table/network.ts';
import { type StartingSettings, startingSettings } from './table/starting.ts';
import { type TensorBoardSettings, tensorBoardSettings } from './table/tensorboard.ts';
import { type TimelineSettings, timelineSettings } from './table/timeline.ts';

export { type Flag, type Setting, settingGroups } from './setting.ts';
export type { OverlapChoice } from './table/collectives.ts';
export type { FileSettings } from './table/files.ts';
export { type LaunchOptions, launchTable } from './table/launch-options.ts';
export type { LogFormat, LogLevel } from './table/monitoring.ts';
export { cannotEncrypt, type TransportChoice } from './table/network.ts';

/** Settings that are entries of the table. */
export interface TableSettings
  extends StartingSettings,
    CollectiveSettings,
    NetworkSettings,
    AutotuneSettings,
    MonitoringSettings,
    TimelineSettings,
    TensorBoardSettings,
    ElasticSettings,
    FileSettings,
    DataSettings,
    GivenSettings {}

/** What one rank knows about its job and how it is to behave. */
export interface Settings extends TableSettings {
  /** Who started this process. `rank`, `size`, `localRank` and `localSize` above are taken from it. */
  readonly launcher: LauncherEnvironment;
  /** Names of the settings that were set by a flag, file or variable: autotune leaves them alone. */
  readonly given: ReadonlySet<string>;
}

export const settingsTable: SettingsOf<TableSettings> = {
  ...startingSettings,
  ...collectiveSettings,
  ...networkSettings,
  ...autotuneSettings,
  ...monitoringSettings,
  ...timelineSettings,
  ...tensorBoardSettings,
  ...elasticSettings,
  ...fileSettings,
  ...dataSettings,
  ...givenSettings,
};
