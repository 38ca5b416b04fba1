// Ranks run on Node, also where the kernel of the notebook is Deno, unless its user asks for Deno.

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { inspect } from 'node:util';
import { HorovodError } from '../../errors.ts';
import type { NodeProgram } from '../job-request.ts';

export interface WantedRuntime {
  /** Of launch(): 'node', 'deno', or undefined. */
  readonly runtime?: unknown;
  readonly isNotebook: boolean;
  /** PATH */
  readonly path: string | undefined;
  /** Whether this process is Deno. */
  readonly isDeno?: boolean | undefined;
}

/** Undefined: what runs this process. */
export function programOfRanks({
  runtime = 'node',
  isNotebook,
  path,
  isDeno = process.versions['deno'] !== undefined,
}: WantedRuntime): NodeProgram | undefined {
  if (runtime !== 'node' && runtime !== 'deno')
    throw wrong(`runtime is ${inspect(runtime, { depth: 0 })}; expected 'node' or 'deno'`);
  if (runtime === 'deno') {
    if (!isDeno) throw wrong("runtime 'deno' needs the kernel of Deno, and this process is Node");
    // It has no hooks that could make a module of the cells without reading addons as text.
    if (isNotebook)
      throw wrong(
        "runtime 'deno' is for scripts: Deno cannot load a notebook as a module. Leave runtime out",
      );
    return undefined;
  }
  if (!isDeno) return undefined;
  const execPath = (path ?? '')
    .split(delimiter)
    .map((folder) => join(folder, 'node'))
    .find(isProgram);
  if (execPath !== undefined) return { execPath, execArgv: [] };
  throw wrong(
    `ranks run on Node, and there is no \`node\` in the PATH of this kernel. Install Node 20.19 or newer, and start Jupyter from a shell that finds it${isNotebook ? '' : ", or pass runtime: 'deno'"}`,
  );
}

function wrong(message: string): HorovodError {
  return new HorovodError('ERR_HVD_SETTING', `launch: ${message}.`);
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
