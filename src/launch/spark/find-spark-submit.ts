// Where spark-submit is: as asked, in SPARK_HOME, or on the PATH.

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { HorovodError } from '../../errors.ts';

/** Throws ERR_HVD_SETTING if there is none. */
export function findSparkSubmit(asked: string | undefined, environment: NodeJS.ProcessEnv): string {
  const { SPARK_HOME: home, PATH: path = '' } = environment;
  const candidates =
    asked !== undefined
      ? [asked]
      : [
          ...(home === undefined || home === '' ? [] : [join(home, 'bin/spark-submit')]),
          ...path.split(delimiter).map((folder) => join(folder, 'spark-submit')),
        ];
  const found = candidates.find(isProgram);
  if (found !== undefined) return found;
  const where =
    asked !== undefined
      ? `${asked} (sparkSubmit) is not a program`
      : `spark-submit was found neither in SPARK_HOME${home === undefined ? '' : ` (${home})`} nor on the PATH`;
  throw new HorovodError(
    'ERR_HVD_SETTING',
    `spark: ${where}. Install Spark (pip install pyspark), or pass the path of spark-submit as sparkSubmit.`,
  );
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
