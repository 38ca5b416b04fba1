// Lines of a log: which of them a filter lets through, and the colours that programs put into them. Only text, no browser.

import type { LogLine } from '../messages.ts';

export interface LogFilter {
  /** Undefined: all ranks and the launcher. */
  readonly rank: number | undefined;
  /** Without regard to case. */
  readonly search: string;
  readonly errorsOnly: boolean;
}

/** A stretch of text in one style: names of CSS classes, separated by spaces. */
export interface Stretch {
  readonly text: string;
  readonly style: string;
}

/** Longer ones are cut; the file to download has all of it. */
export const maxShownCharacters = 4000;

const errorWords = /\b(?:\w*error|exception|fatal|failed|failure|killed|panic|traceback|out of memory)\b/i;
const colours = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
const escapes =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this is what begins an escape sequence
  /\u001b\[([\d;]*)m|\u001b\[[\d;?]*[A-Za-ln-z]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[\u0000-\u0008\u000b-\u001f\u007f]/g;

export function isError({ stream, text }: LogLine): boolean {
  return stream === 'stderr' ? !/\bwarn(?:ing)?\b/i.test(text) : errorWords.test(text);
}

export function passes(line: LogLine, { rank, search, errorsOnly }: LogFilter): boolean {
  if (rank !== undefined && line.rank !== rank) return false;
  if (errorsOnly && !isError(line)) return false;
  return search === '' || line.text.toLowerCase().includes(search.toLowerCase());
}

/** The text without escape sequences, with the colours that they mean. */
export function stretchesOf(text: string): Stretch[] {
  const stretches: Stretch[] = [];
  const styles = new Map<string, string>();
  const add = (part: string) => {
    if (part !== '') stretches.push({ text: part, style: [...styles.values()].join(' ') });
  };
  let done = 0;
  for (const match of text.matchAll(escapes)) {
    add(text.slice(done, match.index));
    done = match.index + match[0].length;
    if (match[1] !== undefined) applyStyle(styles, match[1]);
  }
  add(text.slice(done));
  return stretches;
}

function applyStyle(styles: Map<string, string>, codes: string): void {
  const list = codes.split(';').map(Number);
  for (let at = 0; at < list.length; at++) {
    const code = list[at] as number;
    if (code === 0) styles.clear();
    else if (code === 1) styles.set('weight', 'ansi-bold');
    else if (code === 2) styles.set('weight', 'ansi-dim');
    else if (code === 22) styles.delete('weight');
    else if (code === 39) styles.delete('colour');
    else if (code >= 30 && code <= 37) styles.set('colour', `ansi-${colours[code - 30]}`);
    else if (code >= 90 && code <= 97) styles.set('colour', `ansi-${colours[code - 90]}`);
    // Colours out of 256 or more: skipped with their numbers.
    else if (code === 38 || code === 48) at += list[at + 1] === 5 ? 2 : 4;
  }
}

/** Where the search text occurs: pieces in turn without and with it. */
export function splitMatches(text: string, search: string): string[] {
  if (search === '') return [text];
  const lower = text.toLowerCase();
  const wanted = search.toLowerCase();
  // A letter whose small form has another length would shift everything after it.
  if (lower.length !== text.length) return [text];
  const pieces: string[] = [];
  let done = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, done)) {
    pieces.push(text.slice(done, at), text.slice(at, at + wanted.length));
    done = at + wanted.length;
  }
  return [...pieces, text.slice(done)];
}
