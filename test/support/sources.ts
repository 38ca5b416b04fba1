// The files of the repository for the tests in test/house: their text, their code without comments, and their imports.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { repository } from './repository.ts';

export interface Source {
  /** Path from the repository's root, with forward slashes. */
  readonly path: string;
  readonly text: string;
  /** The text without comments, so that tests do not find code in comments. */
  readonly code: string;
}

/** All files below a folder whose name matches, sorted by their path. */
export function readSources(folder: string, name: RegExp): Source[] {
  const root = join(repository, folder);
  if (!existsSync(root)) return [];
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && name.test(entry.name))
    .map((entry) => {
      const file = join(entry.parentPath, entry.name);
      const text = readFileSync(file, 'utf8');
      return { path: relative(repository, file), text, code: withoutComments(text) };
    })
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** The code that we ship: src/ without its tests. */
export function readProduct(): Source[] {
  return readSources('src', /(?<!\.test)\.ts$/);
}

export function readNativeSources(): Source[] {
  return readSources('native/src', /\.(cc|h|inc)$/);
}

export function paths(list: readonly Source[]): string[] {
  return list.map((source) => source.path);
}

/** Paths of the files that a file imports, values and types, statically or dynamically. */
export function importsOf({ path, code }: Pick<Source, 'path' | 'code'>): string[] {
  const specifiers = code.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g);
  return [...specifiers].map((match) => normalize(join(dirname(path), match[1] as string)));
}

/** The text without comments. Strings and regular expressions stay, whatever they contain. */
export function withoutComments(text: string): string {
  const literal = /'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\[\s\S])*`/;
  // A slash begins a regular expression if no value can end before it.
  const expression =
    /(?<=(?:^|[(,=:[!&|?{};>]|\breturn)\s*)\/(?![*/])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\//;
  const comment = /(\s?\/\/.*|\/\*[\s\S]*?\*\/)/;
  const token = new RegExp(`${literal.source}|${expression.source}|${comment.source}`, 'gm');
  return text.replaceAll(token, (found, isComment: string | undefined) =>
    isComment === undefined ? found : '',
  );
}
