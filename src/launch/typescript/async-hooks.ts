// The hooks in the form module.register() takes (Node before 22.15), run in Node's loader thread.

import { isNotebookUrl, loadTypeScript, typeScriptSpecifier } from './hooks.ts';

type NextResolve = (specifier: string, context?: unknown) => Promise<unknown>;
type NextLoad = (url: string, context?: unknown) => Promise<unknown>;

export async function resolve(
  specifier: string,
  context: { parentURL?: string },
  nextResolve: NextResolve,
): Promise<unknown> {
  try {
    return await nextResolve(specifier, context);
  } catch (error) {
    const candidate = typeScriptSpecifier(specifier, context.parentURL);
    if (candidate === undefined) throw error;
    return nextResolve(candidate, context);
  }
}

export async function load(url: string, context: unknown, nextLoad: NextLoad): Promise<unknown> {
  if (!isNotebookUrl(url)) return loadTypeScript(url) ?? nextLoad(url, context);
  return (await import('./load-notebook-module.ts')).loadNotebookModule(url);
}
