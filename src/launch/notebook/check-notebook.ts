// The launcher's look at a notebook before ranks start: a mistake is reported once, and what does not run is named once.

import { compileTypeScript } from '../typescript/transform.ts';
import { loadNotebook, skippedText } from './cells/load-notebook.ts';
import type { Notebook } from './cells/notebook.ts';
import type { ParameterTexts } from './cells/parameters.ts';

/** Throws ERR_HVD_NOTEBOOK. */
export function checkedNotebook(
  path: string,
  parameters: ParameterTexts = new Map(),
): { readonly notebook: Notebook; readonly skipped: string | undefined } {
  const { notebook } = loadNotebook(path, parameters, (source) => compileTypeScript(source, path));
  return { notebook, skipped: skippedText(notebook) };
}
