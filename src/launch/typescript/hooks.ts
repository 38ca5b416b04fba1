// Module hooks that let Node run TypeScript: `load` transforms the code, and `resolve` finds `./x.ts` for an import of
// `./x.js` (as TypeScript code is usually written) if only the former exists.

import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transformTypeScript } from './transform.ts';

type Format = 'module' | 'commonjs';

export interface Loaded {
  readonly format: Format;
  readonly source: string;
  readonly shortCircuit: true;
}

/** Notebooks are loaded by load-notebook-module.ts, which needs more modules. */
export function isNotebookUrl(url: string): boolean {
  return /^file:.*\.ipynb$/i.test(withoutQuery(url));
}

/** The code of a TypeScript file; undefined for anything else. */
export function loadTypeScript(url: string): Loaded | undefined {
  const extension = /^file:.*\.([cm]?ts)$/.exec(withoutQuery(url))?.[1];
  if (extension === undefined) return undefined;
  const path = fileURLToPath(url);
  const source = transformTypeScript(readFileSync(path, 'utf8'), url);
  const format =
    extension === 'mts' ? 'module' : extension === 'cts' ? 'commonjs' : (packageType(path) ?? guess(source));
  return { format, source, shortCircuit: true };
}

/** The specifier to try after `specifier` was not found; undefined if there is none. */
export function typeScriptSpecifier(specifier: string, parentUrl: string | undefined): string | undefined {
  const match = /^(\.{0,2}\/.*\.|file:.*\.)([cm]?)js$/.exec(specifier);
  if (match === null || parentUrl === undefined) return undefined;
  const candidate = `${match[1]}${match[2]}ts`;
  const url = new URL(candidate, parentUrl);
  return url.protocol === 'file:' && existsSync(url) ? candidate : undefined;
}

function withoutQuery(url: string): string {
  return url.split(/[?#]/, 1)[0] as string;
}

/** According to the nearest package.json. */
function packageType(path: string): Format | undefined {
  for (let directory = dirname(path); ; directory = dirname(directory)) {
    const file = join(directory, 'package.json');
    if (existsSync(file)) {
      const { type } = JSON.parse(readFileSync(file, 'utf8')) as { type?: unknown };
      return type === 'module' || type === 'commonjs' ? type : undefined;
    }
    if (directory === dirname(directory)) return undefined;
  }
}

/** If package.json does not say: a module, unless it looks like CommonJS and not like a module. */
function guess(code: string): Format {
  if (/^\s*(import|export)\b/m.test(code)) return 'module';
  return /\brequire\s*\(|\bmodule\.exports\b|^\s*exports\.\w/m.test(code) ? 'commonjs' : 'module';
}
