// `horovod/typescript`: passed to Node with `--import`, so that it can run and import TypeScript files and notebooks. horovodrun
// does that by itself; under mpirun and srun, users do. Stack traces show the lines of the TypeScript files, and cells of notebooks.

import * as nodeModule from 'node:module';
import { isNotebookUrl, loadTypeScript, typeScriptSpecifier } from './hooks.ts';

interface SyncHooks {
  resolve(specifier: string, context: { parentURL?: string }, next: Next): unknown;
  load(url: string, context: unknown, next: Next): unknown;
}
type Next = (name: string, context?: unknown) => unknown;

// Node ≥ 22.15: hooks in the same thread, for import and require alike. The types are those of Node 20.
const { registerHooks } = nodeModule as unknown as { registerHooks?: (hooks: SyncHooks) => void };

// Deno reads TypeScript by itself. With any `load` hook, even one that changes nothing, it reads addons as text.
if (process.versions['deno'] !== undefined) {
  // Nothing to register.
} else if (registerHooks === undefined) {
  process.setSourceMapsEnabled(true);
  nodeModule.register('./async-hooks.js', import.meta.url);
} else {
  process.setSourceMapsEnabled(true);
  const { loadNotebookModule } = await import('./load-notebook-module.ts');
  registerHooks({
    resolve(specifier, context, next) {
      try {
        return next(specifier, context);
      } catch (error) {
        const candidate = typeScriptSpecifier(specifier, context.parentURL);
        if (candidate === undefined) throw error;
        return next(candidate, context);
      }
    },
    load: (url, context, next) =>
      isNotebookUrl(url) ? loadNotebookModule(url) : (loadTypeScript(url) ?? next(url, context)),
  });
}
