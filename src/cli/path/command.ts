// `horovod path`: where a file lies that this package ships for other programs, such as the Python file for spark-submit.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../settings/package.ts';
import { settingError } from '../../settings/setting.ts';
import { parseOptions, type Subcommand } from '../subcommand.ts';

const help = `Usage: horovod path FILE

Print where a file lies that this package ships for other programs:

  spark-submit "$(horovod path spark/horovod_spark.py)" --num-proc 4 train.js

Files:
`;

export const pathCommand: Pick<Subcommand, 'run'> = {
  async run(argv, output) {
    const { values, positionals } = parseOptions(argv, { help: { type: 'boolean', short: 'h' } });
    const folder = join(packageRoot(), 'python');
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .map((file) => file.replaceAll('\\', '/'))
      .filter((file) => file.endsWith('.py'))
      .sort();
    if (values.help) {
      output.out(`${help}${files.map((file) => `  ${file}\n`).join('')}`);
      return 0;
    }
    const [file, ...more] = positionals;
    if (file === undefined) throw settingError(`FILE is missing: one of ${files.join(', ')}.`);
    if (more.length > 0) throw settingError(`unexpected ${more.join(', ')}.`);
    if (!files.includes(file))
      throw settingError(`there is no ${JSON.stringify(file)}. The files are ${files.join(', ')}.`);
    output.out(`${join(folder, file)}\n`);
    return 0;
  },
};
