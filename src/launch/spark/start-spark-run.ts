// From the options of a program to spark-submit.

import { inspect } from 'node:util';
import { processEnvironment } from '../../settings/environment.ts';
import { settingError } from '../../settings/setting.ts';
import { settingsTable } from '../../settings/table.ts';
import type { PlaceGiver } from '../places/place-giver.ts';
import { startRun } from '../run/start-run.ts';
import { findSparkSubmit } from './find-spark-submit.ts';
import type { SparkOptions, SparkRunOptions } from './run.ts';
import { sparkPlaces } from './spark-places.ts';
import { SparkSubmit } from './spark-submit.ts';

export async function startSparkRun(target: unknown, options: SparkRunOptions): Promise<unknown[]> {
  const { numProc, minNumProc, maxNumProc, startTimeoutMs, env, ...others } = options;
  for (const [name, value] of Object.entries({ numProc, minNumProc, maxNumProc }))
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= 1))
      throw settingError(`spark: ${name} is ${inspect(value)}; expected an integer ≥ 1.`);
  const limit = startTimeoutMs === undefined ? {} : { [timeoutVariable]: String(startTimeoutMs / 1000) };
  const job = { ...others, np: numProc, minNp: minNumProc, maxNp: maxNumProc, env: { ...env, ...limit } };
  return startRun(target, job, placesOfSparkSubmit(options));
}

const timeoutVariable = settingsTable.sparkStartTimeoutMs.env as string;

/** Throws ERR_HVD_SETTING for wrong options, and if there is no spark-submit. */
export function placesOfSparkSubmit(options: SparkOptions): PlaceGiver {
  const environment = { ...processEnvironment() };
  const { pythonExecutable } = options;
  if (pythonExecutable !== undefined)
    for (const name of ['PYSPARK_PYTHON', 'PYSPARK_DRIVER_PYTHON']) environment[name] = pythonExecutable;
  const args = submitArguments(options);
  const program = findSparkSubmit(options.sparkSubmit, environment);
  return sparkPlaces(({ isVerbose, say }) => {
    const explain = isVerbose ? say : () => undefined;
    return new SparkSubmit({ program, args, environment, explain });
  });
}

export function submitArguments({ master, conf = {}, files = [], archives = [] }: SparkOptions): string[] {
  const properties = Object.entries(conf);
  for (const [name, value] of properties) {
    if (!/^[^\s=]+$/.test(name))
      throw settingError(`spark: conf has a property named ${JSON.stringify(name)}.`);
    if (!['string', 'number', 'boolean'].includes(typeof value))
      throw settingError(
        `spark: ${name} of conf is ${inspect(value, { depth: 0 })}; expected a text, a number, true or false.`,
      );
  }
  if (conf['spark.submit.deployMode'] === 'cluster')
    throw settingError(
      'spark: in deploy mode cluster, the Spark driver does not run beside this program. Leave out spark.submit.deployMode, or use ' +
        '`spark-submit --deploy-mode cluster "$(horovod path spark/horovod_spark.py)" …`.',
    );
  return [
    ...(master === undefined ? [] : ['--master', master]),
    ...properties.flatMap(([name, value]) => ['--conf', `${name}=${value}`]),
    ...(files.length === 0 ? [] : ['--files', files.join(',')]),
    ...(archives.length === 0 ? [] : ['--archives', archives.join(',')]),
  ];
}
