// Ranks run on Node, also where the kernel of the notebook is Deno.

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { HorovodError } from '../../errors.ts';
import type { NodeProgram } from '../job-request.ts';

/** Undefined: this process is Node. */
export function nodeForRanks(
  path: string | undefined,
  isDeno: boolean = process.versions['deno'] !== undefined,
): NodeProgram | undefined {
  if (!isDeno) return undefined;
  const execPath = (path ?? '')
    .split(delimiter)
    .map((folder) => join(folder, 'node'))
    .find(isProgram);
  if (execPath !== undefined) return { execPath, execArgv: [] };
  throw new HorovodError(
    'ERR_HVD_SETTING',
    'launch: ranks run on Node, and there is no `node` in the PATH of this kernel. Install Node 20.19 or newer, and start Jupyter from a shell that finds it.',
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
