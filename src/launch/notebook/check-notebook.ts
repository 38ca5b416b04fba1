// The launcher's look at a notebook before ranks start: a mistake is reported once, and what does not run is named once.

import { compileTypeScript } from '../typescript/transform.ts';
import { loadNotebook, skippedText } from './cells/load-notebook.ts';
import type { ParameterTexts } from './cells/parameters.ts';

/** Throws ERR_HVD_NOTEBOOK. */
export function checkedNotebook(
  path: string,
  parameters: ParameterTexts = new Map(),
): { readonly skipped: string | undefined } {
  const { notebook } = loadNotebook(path, parameters, (source) => compileTypeScript(source, path));
  return { skipped: skippedText(notebook) };
}
