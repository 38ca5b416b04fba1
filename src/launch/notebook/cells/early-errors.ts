// Errors that the engine finds before it runs a module. Node shows them with lines of the generated code, so they are looked for here
// and named with their cells. The usual one is a name that two cells declare: kernels allow that, a module does not.

import { Script } from 'node:vm';
import { localNames, parseImport } from './imports.ts';

export interface EarlyError {
  readonly message: string;
  /** Of the generated code, from 0. */
  readonly line: number;
  /** The name that is declared again. */
  readonly redeclared: string | undefined;
}

const fileName = 'hvd-notebook';

/** A line of the generated code. */
export interface GeneratedLine {
  readonly text: string;
  /** Where a statement that only modules have begins in it; undefined: there is none. */
  readonly statement: number | undefined;
}

export function findEarlyError(lines: readonly GeneratedLine[]): EarlyError | undefined {
  const body = lines.map(asScript);
  // A form that is not known here: Node will say what is wrong, if anything is.
  return body.includes(undefined) ? undefined : compile(body as string[]);
}

/** Whether this part of such code declares the name at its top. */
export function declares(lines: readonly GeneratedLine[], name: string): boolean {
  return compile([...lines.map((line) => asScript(line) ?? ''), `;let ${name};`])?.redeclared === name;
}

/** In a strict block, names are declared as in a module. */
function compile(body: readonly string[]): EarlyError | undefined {
  const text = `'use strict'; async () => {{ ${body.join('\n')}\n}}`.replaceAll('import.meta', 'import_meta');
  try {
    new Script(text, { filename: fileName });
    return undefined;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const line = new RegExp(`^${fileName}:(\\d+)`).exec(error.stack ?? '')?.[1];
    return {
      message: error.message,
      line: Number(line ?? 1) - 1,
      redeclared: /^Identifier '(.+)' has already been declared$/.exec(error.message)?.[1],
    };
  }
}

/** A statement that only modules have, as one that declares the same names. Undefined if it is not known. */
function asScript({ text, statement }: GeneratedLine): string | undefined {
  if (statement === undefined) return text;
  const replacement = withoutModule(text.slice(statement));
  return replacement === undefined ? undefined : text.slice(0, statement) + replacement;
}

function withoutModule(line: string): string | undefined {
  if (line.startsWith('import')) {
    const statement = parseImport(line);
    if (statement === undefined) return undefined;
    const names = localNames(statement);
    return names.length === 0 ? '' : `const [${names.join(', ')}] = [];`;
  }
  if (/^export (const|let|var|function|class|async function)\b/.test(line))
    return line.slice('export '.length);
  const [, rest] = /^export default (.*)$/.exec(line) ?? [];
  if (rest !== undefined)
    return /^(async function|function|class)\b\s*\*?\s*[^\s({]/.test(rest) ? rest : `void ${rest}`;
  return /^export \{[^}]*\};?$/.test(line) ? '' : undefined;
}
