// The cell with the tag `parameters`: constants and variables with a value, one per line. Values given from outside replace those of the
// cell in place. They come as text, from --notebook-parameter or launch(): JSON, or else plain text. A type in the cell decides
// where both are possible, and is checked.

import { nearest } from '../../../settings/nearest.ts';
import { cellName, type Notebook, type NotebookCell, notebookError } from './notebook.ts';

const tag = 'parameters';

/** Texts of values by name. */
export type ParameterTexts = ReadonlyMap<string, string>;

interface Declaration {
  readonly cell: NotebookCell;
  /** From 0. */
  readonly line: number;
  readonly name: string;
  readonly type: string | undefined;
  /** Where the value is in its line. */
  readonly start: number;
  readonly end: number;
}

/** The notebook with these values. Throws ERR_HVD_NOTEBOOK for unknown names and values of another type. */
export function withParameters(notebook: Notebook, texts: ParameterTexts): Notebook {
  if (texts.size === 0) return notebook;
  const { name, cells } = notebook;
  const declared = new Map<string, Declaration>();
  const tagged = cells.filter(({ tags }) => tags.includes(tag));
  if (tagged.length === 0)
    throw notebookError(
      `${name} has no parameters, but ${[...texts.keys()].join(', ')} ${texts.size === 1 ? 'is' : 'are'} given. Give the cell that declares them the tag \`${tag}\`.`,
    );
  for (const cell of tagged) for (const each of declarationsOf(name, cell)) declared.set(each.name, each);
  const values = [...texts].map(([parameter, text]) => {
    const declaration = declared.get(parameter);
    if (declaration === undefined) throw unknownParameter(name, parameter, [...declared.keys()]);
    return { ...declaration, value: literalOf(name, declaration, text) };
  });
  const replaced = cells.map((cell) => {
    const own = values.filter((each) => each.cell === cell);
    if (own.length === 0) return cell;
    const lines = [...cell.lines];
    for (const { line, start, end, value } of own) {
      const text = lines[line] as string;
      lines[line] = `${text.slice(0, start)}${value}${text.slice(end)}`;
    }
    return { ...cell, lines };
  });
  return { ...notebook, cells: replaced };
}

function unknownParameter(notebook: string, name: string, known: readonly string[]): Error {
  const near = nearest(name, known);
  return notebookError(
    `${notebook} has no parameter ${name}.${near === undefined ? '' : ` Did you mean ${near}?`} Its parameters are ${known.join(', ') || 'none: its cell is empty'}.`,
  );
}

function declarationsOf(notebook: string, cell: NotebookCell): Declaration[] {
  let isComment = false;
  return cell.lines.flatMap((text, line) => {
    const wasComment = isComment;
    if (wasComment || /^\s*\/\*/.test(text)) isComment = !text.includes('*/');
    if (wasComment || /^\s*(\/\*|\/\/|$)/.test(text)) return [];
    const match = /^\s*(?:export\s+)?(?:const|let|var)\s+([\p{ID_Start}$_][\p{ID_Continue}$]*)/u.exec(text);
    const place = match === null ? undefined : valuePlace(text, match[0].length);
    if (match === null || place === undefined)
      throw notebookError(
        `${notebook} ${cellName(cell)}, line ${line + 1}: a cell with the tag \`${tag}\` may hold only \`const name = value\` or \`let name: type = value\`, one per line, and comments. Found: ${text.trim().slice(0, 80)}`,
      );
    const type = typeOf(text.slice(match[0].length, place.equals), text.slice(place.start, place.end));
    return [{ cell, line, name: match[1] as string, type, start: place.start, end: place.end }];
  });
}

/** The type that is written or seen from the value, if it is a plain one. */
function typeOf(annotation: string, value: string): string | undefined {
  const written = /^\s*:\s*(.*?)\s*$/.exec(annotation)?.[1];
  if (written !== undefined) return /^(number|string|boolean)$/.exec(written)?.[0];
  if (/^[-+]?(\d|\.\d)[\w.]*$/.test(value)) return 'number';
  if (/^(['"`]).*\1$/.test(value)) return 'string';
  return /^(true|false)$/.test(value) ? 'boolean' : undefined;
}

/** From the `=` outside of brackets and texts to the end of the line, without semicolon and comment. */
function valuePlace(
  text: string,
  from: number,
): { readonly equals: number; readonly start: number; readonly end: number } | undefined {
  let depth = 0;
  let quote = '';
  let equals: number | undefined;
  let end = text.length;
  for (let at = from; at < text.length; at++) {
    const c = text[at] as string;
    if (quote !== '') {
      if (c === '\\') at++;
      else if (c === quote) quote = '';
      continue;
    }
    if (c === '/' && (text[at + 1] === '/' || text[at + 1] === '*')) {
      end = at;
      break;
    }
    if (/['"`]/.test(c)) quote = c;
    else if (/[([{]/.test(c)) depth++;
    else if (/[)\]}]/.test(c)) depth--;
    else if (depth === 0 && c === ';') {
      end = at;
      break;
    } else if (depth === 0 && equals === undefined && c === '=' && text[at + 1] !== '>') equals = at;
  }
  if (equals === undefined || depth !== 0 || quote !== '') return undefined;
  // Only a comment may follow.
  if (!/^;?\s*(\/\/.*|\/\*.*\*\/\s*)?$/.test(text.slice(end))) return undefined;
  const value = text.slice(equals + 1, end);
  const start = equals + 1 + (value.length - value.trimStart().length);
  const stop = equals + 1 + value.trimEnd().length;
  return stop > start ? { equals, start, end: stop } : undefined;
}

/** The value as code. */
function literalOf(notebook: string, { name, type, cell }: Declaration, text: string): string {
  const value = jsonOf(text);
  if (type === 'string') return JSON.stringify(typeof value === 'string' ? value : text);
  if (type === undefined) return JSON.stringify(value === undefined ? text : value);
  const given = value === undefined ? text : value;
  if (typeof given === type) return JSON.stringify(given);
  throw notebookError(
    `${notebook}: the parameter ${name} is a ${type} in ${cellName(cell)}, but its value is ${JSON.stringify(given)}.`,
  );
}

/** Undefined for text that is no JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
