// The files of the repository as the tests in test/house read them: their text, their code without comments, and what they import.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { repository } from './repository.ts';

export interface Source {
  /** Path from the repository's root, with forward slashes. */
  readonly path: string;
  readonly text: string;
  /** The text without comments, so that an explanation is not taken for code. */
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

/** What ships: src/ without its tests. */
export function readProduct(): Source[] {
  return readSources('src', /(?<!\.test)\.ts$/);
}

export function readNativeSources(): Source[] {
  return readSources('native/src', /\.(cc|h|inc)$/);
}

export function paths(list: readonly Source[]): string[] {
  return list.map((source) => source.path);
}

/** Paths of the files that a file imports, values and types, statically or not. */
export function importsOf({ path, code }: Pick<Source, 'path' | 'code'>): string[] {
  const specifiers = code.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g);
  return [...specifiers].map((match) => normalize(join(dirname(path), match[1] as string)));
}

/** The text without comments. Strings and regular expressions stay, whatever they contain. */
export function withoutComments(text: string): string {
  const literal = /'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\[\s\S])*`/;
  // A slash begins a regular expression where no value can end.
  const expression =
    /(?<=(?:^|[(,=:[!&|?{};>]|\breturn)\s*)\/(?![*/])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\//;
  const comment = /(\s?\/\/.*|\/\*[\s\S]*?\*\/)/;
  const token = new RegExp(`${literal.source}|${expression.source}|${comment.source}`, 'gm');
  return text.replaceAll(token, (found, isComment: string | undefined) =>
    isComment === undefined ? found : '',
  );
}
