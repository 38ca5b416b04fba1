// What to run for the words after the flags. A script alone is run with this Node; TypeScript goes through our
// loader (typescript/), on every version of Node in the same way. Everything else is a program as it stands.

import { existsSync, statSync } from 'node:fs';
import { extname, isAbsolute } from 'node:path';
import type { RankCommand } from './spawn/rank-process.ts';

const scriptExtensions = ['.js', '.mjs', '.cjs', '.ts', '.mts', '.cts'];

/** `execArgv`: the options this Node itself was started with. */
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
      // A name that looks like an option is still a file.
      isAbsolute(file) || file.startsWith('.') ? file : `./${file}`,
      ...args,
    ],
  };
}

function isScript(file: string): boolean {
  return scriptExtensions.includes(extname(file)) && existsSync(file) && statSync(file).isFile();
}
