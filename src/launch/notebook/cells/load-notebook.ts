// From the file of a notebook to its module.

import { readFileSync } from 'node:fs';
import { type Notebook, parseNotebook } from './notebook.ts';
import { type Compile, type Compiled, notebookModule } from './notebook-module.ts';
import { type ParameterTexts, withParameters } from './parameters.ts';

export interface LoadedNotebook extends Compiled {
  readonly notebook: Notebook;
}

/** Throws ERR_HVD_NOTEBOOK for a notebook that cannot run. */
export function loadNotebook(path: string, parameters: ParameterTexts, compile: Compile): LoadedNotebook {
  const notebook = withParameters(parseNotebook(path, readFileSync(path, 'utf8')), parameters);
  return { notebook, ...notebookModule(notebook, compile) };
}

export function isNotebook(path: string): boolean {
  return /\.ipynb$/i.test(path);
}

/** Undefined: everything runs. */
export function skippedText({ name, skipped }: Notebook): string | undefined {
  return skipped.length === 0 ? undefined : `${name}: these do not run here: ${skipped.join('; ')}.`;
}
