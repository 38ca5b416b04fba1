// Patterns of file names, one matcher for all file systems: * ? [a-z] [!a-z] {a,b}, ** for any number of folders, \ before a
// character that is meant literally. Names that begin with a dot match only patterns that do. Results are sorted by code units,
// so that all ranks get the same list. A location that exists is itself, whatever characters it has.

import {
  type FileStatus,
  type FileSystem,
  type FileWaitOptions,
  fileError,
  problemOf,
} from './file-system.ts';
import { isHttp, joinLocation, locationOf, splitRoot } from './location.ts';
import type { Files } from './registry.ts';

/** Whether a location has characters of patterns. In http URLs they mean something else. */
export function isPattern(location: string): boolean {
  return !isHttp(location) && /[*?[{]/.test(location);
}

/** The files that match, folders not; none is an empty list. */
export async function glob(files: Files, pattern: string, options: FileWaitOptions = {}): Promise<string[]> {
  const absolute = locationOf(pattern);
  const fileSystem = await files.fileSystem(absolute);
  if (isPattern(absolute) && (await statusIn(fileSystem, absolute, options))?.kind !== 'file') {
    return globIn(fileSystem, absolute, options);
  }
  const status = await statusIn(fileSystem, absolute, options);
  return status === undefined ? [] : [absolute];
}

/** All files of a list of locations and patterns, in the order of the list. A pattern without a file is an error. */
export async function expandPatterns(
  files: Files,
  locations: readonly string[],
  options: FileWaitOptions = {},
): Promise<string[]> {
  const lists = await Promise.all(
    locations.map(async (location) => {
      if (!isPattern(location)) return [locationOf(location)];
      const found = await glob(files, location, options);
      if (found.length > 0) return found;
      throw fileError(`No file matches ${location}.`, 'missing');
    }),
  );
  return lists.flat();
}

async function globIn(fileSystem: FileSystem, pattern: string, options: FileWaitOptions): Promise<string[]> {
  const found = new Set<string>();
  for (const each of expandBraces(pattern)) {
    const { root, path } = splitRoot(each);
    const segments = path.split('/').filter((segment) => segment !== '');
    const literal = segments.findIndex((segment) => /[*?[\\]/.test(segment));
    const fixed = literal < 0 ? segments : segments.slice(0, literal);
    const start = joinLocation(root === '' ? '/' : `${root}/`, ...fixed);
    if (literal < 0) {
      if ((await statusIn(fileSystem, start, options))?.kind === 'file') found.add(start);
      continue;
    }
    await walk(fileSystem, start, segments.slice(literal), found, options);
  }
  return [...found].sort();
}

async function walk(
  fileSystem: FileSystem,
  folder: string,
  [segment = '', ...rest]: readonly string[],
  found: Set<string>,
  options: FileWaitOptions,
): Promise<void> {
  const entries = await entriesOf(fileSystem, folder, options);
  if (segment === '**') {
    const below = rest.length === 0 ? ['*'] : rest;
    await walk(fileSystem, folder, below, found, options);
    for (const entry of entries) {
      // A link may lead back to where the walk began.
      if (entry.kind !== 'folder' || entry.isLink || entry.name.startsWith('.')) continue;
      await walk(fileSystem, entry.location, [segment, ...below], found, options);
    }
    return;
  }
  const expression = segmentExpression(segment);
  for (const entry of entries) {
    if (!expression.test(entry.name)) continue;
    if (rest.length === 0) {
      if (entry.kind === 'file') found.add(entry.location);
    } else if (entry.kind === 'folder') {
      await walk(fileSystem, entry.location, rest, found, options);
    }
  }
}

/** What is not there, or is a file, has no entries. */
async function entriesOf(
  fileSystem: FileSystem,
  folder: string,
  options: FileWaitOptions,
): Promise<FileStatus[]> {
  try {
    return await fileSystem.list(folder, options);
  } catch (error) {
    if (['missing', 'not a folder'].includes(problemOf(error) ?? '')) return [];
    throw error;
  }
}

async function statusIn(
  fileSystem: FileSystem,
  location: string,
  options: FileWaitOptions,
): Promise<FileStatus | undefined> {
  try {
    return await fileSystem.stat(location, options);
  } catch (error) {
    if (['missing', 'not a folder'].includes(problemOf(error) ?? '')) return undefined;
    throw error;
  }
}

/** Each choice of {a,b} as a pattern of its own; braces may be nested. A brace without a partner is a character. */
export function expandBraces(pattern: string): string[] {
  const open = indexOfUnescaped(pattern, '{', 0);
  if (open < 0) return [pattern];
  const choices: string[] = [];
  let depth = 0;
  let from = open + 1;
  for (let at = open; at < pattern.length; at++) {
    const character = pattern[at];
    if (character === '\\') at += 1;
    else if (character === '{') depth += 1;
    else if (character === ',' && depth === 1) {
      choices.push(pattern.slice(from, at));
      from = at + 1;
    } else if (character === '}' && --depth === 0) {
      choices.push(pattern.slice(from, at));
      const [before, after] = [pattern.slice(0, open), expandBraces(pattern.slice(at + 1))];
      // Braces around one choice are characters, as in a shell.
      const inner = choices.length === 1 ? [`\\{${choices[0]}\\}`] : choices.flatMap(expandBraces);
      return inner.flatMap((choice) => after.map((end) => before + choice + end));
    }
  }
  return expandBraces(`${pattern.slice(0, open)}\\${pattern.slice(open)}`);
}

function indexOfUnescaped(text: string, character: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === character) return at;
  }
  return -1;
}

/** One part of a pattern, between slashes. */
export function segmentExpression(segment: string): RegExp {
  let source = segment.startsWith('.') ? '' : '(?!\\.)';
  for (let at = 0; at < segment.length; at++) {
    const character = segment[at] as string;
    if (character === '*') source += '.*';
    else if (character === '?') source += '.';
    else if (character === '\\' && at + 1 < segment.length) source += quoted(segment[++at] as string);
    else if (character === '[') {
      const end = segment.indexOf(']', at + 2);
      if (end < 0) source += '\\[';
      else {
        const set = segment.slice(at + 1, end);
        const isNegated = set.startsWith('!') || set.startsWith('^');
        source += `[${isNegated ? '^' : ''}${(isNegated ? set.slice(1) : set).replaceAll(/[\\\]^[]/g, '\\$&')}]`;
        at = end;
      }
    } else source += quoted(character);
  }
  try {
    return new RegExp(`^${source}$`, 'su');
  } catch (cause) {
    throw fileError(
      `${segment} is not a pattern: [ ] in it has a range that ends before it begins.`,
      undefined,
      cause,
    );
  }
}

function quoted(character: string): string {
  return /[\\^$.*+?()[\]{}|/]/.test(character) ? `\\${character}` : character;
}
