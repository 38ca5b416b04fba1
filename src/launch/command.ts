// What to run for the words after the flags. A script runs with this Node; TypeScript and notebooks go through our loader
// (typescript/), in the same way on every version of Node. `horovod` is the command of this package, wherever it is installed, so
// that nobody needs it on the PATH. Everything else is run as a program.

import { existsSync, statSync } from 'node:fs';
import { extname, isAbsolute } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { NodeProgram } from './job-request.ts';
import type { RankCommand } from './spawn/rank-process.ts';

const scriptExtensions = ['.js', '.mjs', '.cjs', '.ts', '.mts', '.cts', '.ipynb'];

/** `execArgv`: the options of a Node process that may be this one. */
export function resolveCommand(words: readonly string[], { execPath, execArgv }: NodeProgram): RankCommand {
  const [file = '', ...args] = words;
  const loader = new URL('./typescript/register.js', import.meta.url).href;
  if (file === 'horovod') {
    // Pipelines may name functions of TypeScript modules.
    const hooks = args[0] === 'compute-worker' ? ['--import', loader] : [];
    const command = fileURLToPath(new URL('../cli/main.js', import.meta.url));
    return { file: execPath, args: [...nodeOptionsForRanks(execArgv), ...hooks, command, ...args] };
  }
  if (!isScript(file)) return { file, args };
  return {
    file: execPath,
    args: [
      ...nodeOptionsForRanks(execArgv),
      ...(/ts$|\.ipynb$/.test(extname(file)) ? ['--import', loader] : []),
      // A file name may look like an option.
      isAbsolute(file) || file.startsWith('.') ? file : `./${file}`,
      ...args,
    ],
  };
}

/**
 * Options of Node that belong to this process alone. Two ranks cannot listen on one debugger port. The others say what this
 * process runs (code, tests, a prompt, files to watch): a rank with `-e` would run the launcher's code instead of its script,
 * and start another job.
 */
const launcherOnly =
  /^(-e|-p|-pe|-i|--eval|--print|--interactive|--input-type|--(inspect|test|watch)(-.*)?)(=|$)/;

/** What ranks get of `process.execArgv`. */
export function nodeOptionsForRanks(execArgv: readonly string[]): string[] {
  let isDropped = false;
  return execArgv.filter((word) => {
    // Node accepts no value that starts with a dash, so any other word belongs to the option before it.
    if (word.startsWith('-')) isDropped = launcherOnly.test(word);
    return !isDropped;
  });
}

/** Whether a file of this name would run as a script. */
export function isScriptName(file: string): boolean {
  return scriptExtensions.includes(extname(file));
}

function isScript(file: string): boolean {
  return isScriptName(file) && existsSync(file) && statSync(file).isFile();
}
