// In a rank: from a call that run() has sent to the function that is called.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { constants, Script } from 'node:vm';
import type { Callee } from './call.ts';
import { defineCompilerHelpers } from './compiler-helpers.ts';

export async function loadCallee(call: Callee): Promise<(...args: readonly unknown[]) => unknown> {
  if (call.kind === 'function') {
    defineCompilerHelpers(globalThis, call.expression);
    // As if it were in a file of the working directory, where its imports are resolved.
    const script = new Script(call.expression, {
      filename: join(process.cwd(), 'hvd.run'),
      importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    });
    return script.runInThisContext() as (...args: readonly unknown[]) => unknown;
  }
  const isNotebook = /\.ipynb$/i.test(call.path);
  if (isNotebook || /\.[mc]?ts$/.test(call.path)) await import('../typescript/register.ts');
  const module = (await import(pathToFileURL(call.path).href)) as { default?: unknown };
  // In a CommonJS module compiled from ESM, the default export is one level down.
  const inner = module.default as { default?: unknown } | undefined;
  const fn = typeof inner === 'function' ? inner : inner?.default;
  if (typeof fn === 'function') return fn as (...args: readonly unknown[]) => unknown;
  // Its cells have run.
  if (isNotebook && module.default === undefined) return () => undefined;
  throw new TypeError(`${call.path} does not export a function as its default`);
}
