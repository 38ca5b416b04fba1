// What to run for the words after the flags. A script runs with this Node; TypeScript goes through our loader
// (typescript/), in the same way on every version of Node. Everything else is run as a program.

import { existsSync, statSync } from 'node:fs';
import { extname, isAbsolute } from 'node:path';
import type { RankCommand } from './spawn/rank-process.ts';

const scriptExtensions = ['.js', '.mjs', '.cjs', '.ts', '.mts', '.cts'];

/** `execArgv`: the options of this Node process. */
export function resolveCommand(
  words: readonly string[],
  execPath: string,
  execArgv: readonly string[],
): RankCommand {
  const [file = '', ...args] = words;
  if (!isScript(file)) return { file, args };
  const loader = new URL('./typescript/register.js', import.meta.url).href;
  return {
    file: execPath,
    args: [
      // Two ranks cannot listen on one debugger port.
      ...execArgv.filter((option) => !option.startsWith('--inspect')),
      ...(/ts$/.test(extname(file)) ? ['--enable-source-maps', '--import', loader] : []),
      // A file name may look like an option.
      isAbsolute(file) || file.startsWith('.') ? file : `./${file}`,
      ...args,
    ],
  };
}

function isScript(file: string): boolean {
  return scriptExtensions.includes(extname(file)) && existsSync(file) && statSync(file).isFile();
}
