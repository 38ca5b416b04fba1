// Reads the environment into Settings. No other folder reads environment variables.

import { type LauncherEnvironment, readLauncherEnvironment } from './launcher-environment.ts';
import { settingError } from './setting.ts';
import { type Setting, type Settings, settingsTable, type TableSettings } from './table.ts';

/** Throws ERR_HVD_SETTING with the name of the variable and what it accepts. An empty variable counts as not set. */
export function readSettings(env: NodeJS.ProcessEnv): Settings {
  const values: Record<string, unknown> = {};
  const given = new Set<string>();
  for (const [name, setting] of Object.entries(settingsTable) as [string, Setting<unknown>][]) {
    const found = valuesOf(setting, env);
    values[name] = found.length > 0 ? found[0] : setting.default;
    if (found.length > 0) given.add(name);
  }
  const settings = values as unknown as TableSettings;
  const launcher = readLauncherEnvironment(env);
  const { size } = launcher;
  // With HOROVOD_RENDEZVOUS a rank may not know its number before the ranks have met.
  const rank = launcher.rank ?? 0;
  // Without a placement, all ranks count as local; ranks compare their hosts when they meet.
  const placed: Settings = {
    ...settings,
    launcher,
    given,
    rank,
    size,
    localRank: launcher.localRank ?? rank,
    localSize: launcher.localSize ?? size,
    localCores: settings.localCores ?? coresGivenBySlurm(launcher, env),
  };
  for (const [index, count] of [
    ['rank', 'size'],
    ['localRank', 'localSize'],
    ['crossRank', 'crossSize'],
  ] as const) {
    if (placed[index] < placed[count]) continue;
    const [indexEnv, countEnv] = [settingsTable[index].env, settingsTable[count].env];
    throw settingError(`${indexEnv}=${placed[index]} must be less than ${countEnv}=${placed[count]}.`);
  }
  return placed;
}

/** Slurm may bind each task to a part of the job's cores on the node, so the cores of this process are not all of them. */
function coresGivenBySlurm({ kind }: LauncherEnvironment, env: NodeJS.ProcessEnv): number | undefined {
  const cores = Number(env['SLURM_CPUS_ON_NODE']);
  return kind === 'slurm' && Number.isSafeInteger(cores) && cores > 0 ? cores : undefined;
}

/** The value of `text` for a setting; errors call it `source`. */
export function parseSetting(
  { kind, isSecret }: Pick<Setting<unknown>, 'kind' | 'isSecret'>,
  text: string,
  source: string,
): unknown {
  const value = kind.parse(text);
  if (value === undefined) {
    const shown = isSecret ? 'set to a value that is not shown' : JSON.stringify(text);
    throw settingError(`${source} is ${shown}; expected ${kind.accepts}.`);
  }
  return value;
}

/** The values of the variables of a setting that are set, the one that counts first. */
function valuesOf(
  { env: name, kind, alsoEnv = [], isSecret }: Setting<unknown>,
  env: NodeJS.ProcessEnv,
): unknown[] {
  if (name === undefined) return [];
  return [{ env: name, kind }, ...alsoEnv].flatMap((source) => {
    const text = env[source.env];
    if (text === undefined || text === '') return [];
    return [parseSetting({ kind: source.kind, ...(isSecret ? { isSecret } : {}) }, text, source.env)];
  });
}
