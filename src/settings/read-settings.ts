// Reads the environment into Settings. This folder is the only one that looks at environment variables.

import { HorovodError } from '../errors.ts';
import { type Setting, type Settings, settingsTable } from './table.ts';

/** Throws ERR_HVD_SETTING, naming the variable and what it accepts. An empty variable counts as not set. */
export function readSettings(env: NodeJS.ProcessEnv): Settings {
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries(settingsTable) as [string, Setting<unknown>][]) {
    values[name] = readOne(setting, env);
  }
  const settings = values as unknown as Settings;
  const { rank, size } = settings;
  if (isSet(env, 'HOROVOD_RANK') !== isSet(env, 'HOROVOD_SIZE')) {
    throw wrong('HOROVOD_RANK and HOROVOD_SIZE go together, and only one of them is set.');
  }
  refuseOtherLaunchers(env);
  // One host in this version: who does not say where a rank is means here.
  const placed: Settings = {
    ...settings,
    localRank: isSet(env, 'HOROVOD_LOCAL_RANK') ? settings.localRank : rank,
    localSize: isSet(env, 'HOROVOD_LOCAL_SIZE') ? settings.localSize : size,
  };
  for (const [index, count] of [
    ['rank', 'size'],
    ['localRank', 'localSize'],
    ['crossRank', 'crossSize'],
  ] as const) {
    if (placed[index] < placed[count]) continue;
    const [indexEnv, countEnv] = [settingsTable[index].env, settingsTable[count].env];
    throw wrong(`${indexEnv}=${placed[index]} has to be less than ${countEnv}=${placed[count]}.`);
  }
  return placed;
}

/** The value of `text` for a setting; `source` is what the error text calls it. */
export function parseSetting<T>(setting: Setting<T>, text: string, source: string): T {
  const value = setting.kind.parse(text);
  if (value === undefined) {
    const shown = setting.isSecret ? 'a value that is not shown' : JSON.stringify(text);
    throw wrong(`${source} is ${shown}; expected ${setting.kind.accepts}.`);
  }
  return value;
}

function readOne<T>(setting: Setting<T>, env: NodeJS.ProcessEnv): T {
  const text = setting.env === undefined ? undefined : env[setting.env];
  if (text === undefined || text === '') return setting.default;
  return parseSetting(setting, text, setting.env as string);
}

/**
 * Under mpirun or srun every process would take itself for rank 0 of 1 and train alone: better an error.
 * Slurm's variables are there in a batch script without srun too; only a step has tasks.
 */
function refuseOtherLaunchers(env: NodeJS.ProcessEnv): void {
  if (isSet(env, 'HOROVOD_SIZE')) return;
  const sizes = [
    ['Open MPI (mpirun)', env['OMPI_COMM_WORLD_SIZE']],
    ['MPICH (mpiexec)', env['PMI_SIZE']],
    ['Slurm (srun)', isSet(env, 'SLURM_STEP_ID') ? env['SLURM_STEP_NUM_TASKS'] : undefined],
  ] as const;
  for (const [launcher, size] of sizes) {
    if (!(Number(size) > 1)) continue;
    throw new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `this process was started by ${launcher} as one of ${size}, which is not in this version. ` +
        `Start the job with \`horovodrun -np ${size} …\`.`,
    );
  }
}

function isSet(env: NodeJS.ProcessEnv, name: string): boolean {
  return env[name] !== undefined && env[name] !== '';
}

function wrong(message: string): HorovodError {
  return new HorovodError('ERR_HVD_SETTING', message);
}
