// horovodrun --dashboard: from its flags to a running dashboard, and what is done with it when the job has ended.

import type { JobFacts } from '../../observe/dashboard/messages.ts';
import { settingError } from '../../settings/setting.ts';
import {
  type LaunchOptions,
  launchTable,
  type Setting,
  type Settings,
  settingsTable,
} from '../../settings/table.ts';
import { deferred } from '../deferred.ts';
import { announce } from './announce.ts';
import { JobDashboard } from './job-dashboard.ts';

export interface DashboardLaunch {
  readonly command: readonly string[];
  readonly options: LaunchOptions;
  readonly settings: Settings;
  /** Variables that flags and config file set. */
  readonly environment: Readonly<Record<string, string>>;
  readonly driverEnvironment: NodeJS.ProcessEnv;
  readonly say: (text: string) => void;
}

/** Undefined: no flag asks for one. Throws ERR_HVD_SETTING for flags that do not go together, and where the port is in use. */
export async function dashboardFromFlags(launch: DashboardLaunch): Promise<JobDashboard | undefined> {
  const { command, options, settings, environment, driverEnvironment, say } = launch;
  const { dashboardPort: port, dashboardBind: bind, dashboardHosts: hosts } = options;
  if (port === undefined) {
    const [lonely] = lonelyFlags(options);
    if (lonely !== undefined) throw settingError(`${lonely} needs --dashboard.`);
    return undefined;
  }
  const dashboard = await JobDashboard.start({
    command,
    port,
    bind,
    hosts,
    hasControl: options.dashboardControl,
    ranks: Math.max(settings.maxProcesses ?? 0, options.processes ?? settings.minProcesses ?? 1),
    settings: shownSettings(options, environment),
    flightDirectory: settings.flightDirectory,
    memoryDirectory: settings.shmDirectory,
  });
  announce({
    url: dashboard.url,
    port: dashboard.port,
    bind,
    hasControl: options.dashboardControl,
    opens: options.dashboardOpen,
    environment: driverEnvironment,
    say,
  });
  return dashboard;
}

/** With --dashboard-keep: resolves when a signal comes. `onKept` gets what receives it. */
export async function keepDashboard(
  dashboard: JobDashboard,
  say: (text: string) => void,
  onKept: (keeper: { interrupt(): void }) => void,
): Promise<void> {
  const over = deferred();
  onKept({ interrupt: () => over.resolve() });
  say(`The job has ended; the dashboard stays at ${dashboard.url} until Ctrl-C (--dashboard-keep).`);
  // The server alone does not keep this process running.
  const alive = setInterval(() => undefined, 60_000);
  await over.promise;
  clearInterval(alive);
}

function lonelyFlags(options: LaunchOptions): string[] {
  const names = ['Bind', 'Hosts', 'Control', 'Keep', 'Save', 'Open'] as const;
  return names
    .map((name) => `dashboard${name}` as const)
    .filter((key) => options[key] !== undefined && options[key] !== false)
    .flatMap((key) => launchTable[key].flags?.[0]?.names[0] ?? []);
}

/** Arguments of other programs may contain values of variables. */
const hidden: ReadonlySet<string> = new Set(['mpiArgs', 'processes', 'dashboardPort']);

/** What is not a default, by the names that users type. */
export function shownSettings(
  options: LaunchOptions,
  environment: Readonly<Record<string, string>>,
): JobFacts['settings'] {
  const ofLaunch = (Object.entries(launchTable) as [keyof LaunchOptions, Setting<unknown>][])
    .filter(([key, setting]) => !hidden.has(key) && options[key] !== setting.default)
    .map(([key, setting]) => ({ name: nameOf(setting), value: String(options[key]) }));
  const ofRanks = (Object.values(settingsTable) as Setting<unknown>[]).flatMap((setting) => {
    const value = setting.env === undefined ? undefined : environment[setting.env];
    if (value === undefined || setting.isSecret === true || setting.isGiven === true) return [];
    return [{ name: nameOf(setting), value }];
  });
  return [...ofLaunch, ...ofRanks];
}

function nameOf({ flags, env }: Setting<unknown>): string {
  return flags?.[0]?.names[0] ?? env ?? '';
}
