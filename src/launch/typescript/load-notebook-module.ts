// The `load` hook for notebooks: a notebook is a module made of its cells (notebook/cells/). Parameters come in a variable. What does not
// run is said by rank 0, unless horovodrun has said it.

import { fileURLToPath } from 'node:url';
import { HorovodError } from '../../errors.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { type LoadedNotebook, loadNotebook, skippedText } from '../notebook/cells/load-notebook.ts';
import type { Loaded } from './hooks.ts';
import { compileTypeScript, withMap } from './transform.ts';

export function loadNotebookModule(url: string): Loaded {
  const path = fileURLToPath(url);
  const { notebookParameters = new Map<string, string>(), rank, jobId } = readSettings(processEnvironment());
  let loaded: LoadedNotebook;
  try {
    loaded = loadNotebook(path, notebookParameters, (source) => compileTypeScript(source, path));
  } catch (error) {
    // Its own stack only shows this loader.
    if (HorovodError.is(error)) error.stack = `${error.name}: ${error.message}`;
    throw error;
  }
  const { notebook, code, map } = loaded;
  const skipped = skippedText(notebook);
  if (skipped !== undefined && rank === 0 && jobId === undefined) process.stderr.write(`${skipped}\n`);
  return { format: 'module', source: withMap(code, map), shortCircuit: true };
}
