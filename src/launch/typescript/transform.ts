// Transforms TypeScript to JavaScript: types are removed, enums and the like rewritten, and nothing is checked. A source map
// is included, so that stack traces show the user's lines.

import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

type Swc = typeof import('@swc/wasm-typescript');

/** What swc throws for text it cannot parse; not an Error. */
interface SwcError {
  readonly message: string;
  readonly snippet?: string;
  readonly startLine?: number;
  readonly startColumn?: number;
}

export function transformTypeScript(source: string, url: string): string {
  const path = fileURLToPath(url);
  let output: { readonly code: string; readonly map: string };
  try {
    output = compileTypeScript(source, path);
  } catch (error) {
    const { message, snippet, startLine, startColumn } = error as SwcError;
    const place = startLine === undefined ? path : `${path}:${startLine}:${(startColumn ?? 0) + 1}`;
    const syntaxError = new SyntaxError(`${place}: ${message}${snippet === undefined ? '' : `\n${snippet}`}`);
    // Its own stack only shows this loader.
    syntaxError.stack = `${place}\n${snippet ?? ''}\nSyntaxError: ${message}`;
    throw syntaxError;
  }
  const map = JSON.parse(output.map) as Record<string, unknown>;
  return withMap(output.code, JSON.stringify({ ...map, sources: [url] }));
}

/** Throws what swc throws. `map` is JSON. */
export function compileTypeScript(
  source: string,
  filename: string,
): { readonly code: string; readonly map: string } {
  // Loaded at the first use, because it takes 50 ms.
  const { transformSync } = createRequire(import.meta.url)('@swc/wasm-typescript') as Swc;
  const { code, map } = transformSync(source, { mode: 'transform', sourceMap: true, filename });
  return { code, map: map ?? '{}' };
}

/** The code with its source map (JSON) in it. */
export function withMap(code: string, map: string): string {
  return `${code}\n//# sourceMappingURL=data:application/json;base64,${Buffer.from(map).toString('base64')}`;
}
