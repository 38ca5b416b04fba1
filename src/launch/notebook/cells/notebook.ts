// A notebook (.ipynb, format 4) as the cells that run on ranks. Cells are counted as code cells from 1, and lines within their cell from
// 1. Left out are cells with the tag `skip`, `skip-execution` or `launcher`, cells that begin with `%%`, and lines for the
// kernel (`%time`, `!npm install x`), which become empty lines.

import { basename } from 'node:path';
import { HorovodError } from '../../../errors.ts';

export interface NotebookCell {
  /** Of all code cells, from 1. */
  readonly number: number;
  /** The N of `In [N]`, where it has run. */
  readonly executionCount: number | undefined;
  readonly tags: readonly string[];
  readonly lines: readonly string[];
}

export interface Notebook {
  /** `train.ipynb` */
  readonly name: string;
  /** Those that run. */
  readonly cells: readonly NotebookCell[];
  /** What does not run, and why: 'cell 2 (tag launcher)'. */
  readonly skipped: readonly string[];
}

const skippingTags = ['skip', 'skip-execution', 'launcher'];
const languages = ['typescript', 'javascript'];

/** Throws ERR_HVD_NOTEBOOK for what is no notebook, or none of TypeScript. */
export function parseNotebook(path: string, text: string): Notebook {
  const name = basename(path);
  const notebook = parseJson(name, text);
  requireFormat(name, notebook);
  requireLanguage(name, notebook['metadata']);
  const cells: NotebookCell[] = [];
  const skipped: string[] = [];
  let number = 0;
  for (const raw of notebook['cells'] as readonly unknown[]) {
    if (!isObject(raw) || raw['cell_type'] !== 'code') continue;
    number += 1;
    const cell = cellOf(name, number, raw);
    const why = reasonToSkip(cell);
    if (why === undefined) cells.push(withoutMagics(cell, skipped));
    else skipped.push(`${cellName(cell)} (${why})`);
  }
  return { name, cells, skipped };
}

export function notebookError(message: string, cause?: unknown): HorovodError {
  return new HorovodError('ERR_HVD_NOTEBOOK', message, { cause });
}

/** `cell 6`, or `cell 6 (In [12])` if it has run: Jupyter shows no other numbers. */
export function cellName({ number, executionCount }: NotebookCell): string {
  return executionCount === undefined ? `cell ${number}` : `cell ${number} (In [${executionCount}])`;
}

/** Some lines of a cell, one of them marked, as in an error. */
export function excerpt({ lines }: Pick<NotebookCell, 'lines'>, line: number, column?: number): string {
  const around = 2;
  const first = Math.max(1, line - around);
  const last = Math.min(lines.length, line + around);
  const width = String(last).length;
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => {
    const at = first + index;
    const text = `${at === line ? '>' : ' '} ${String(at).padStart(width)} | ${lines[at - 1]}`;
    const pointer = at === line && column !== undefined;
    return pointer ? `${text}\n  ${' '.repeat(width)} | ${' '.repeat(column - 1)}^` : text;
  }).join('\n');
}

function parseJson(name: string, text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (error) {
    throw notebookError(`${name} is not a notebook: it is not JSON (${(error as Error).message}).`, error);
  }
  if (!isObject(value)) throw notebookError(`${name} is not a notebook: it has no cells.`);
  return value;
}

function requireFormat(name: string, notebook: Record<string, unknown>): void {
  const format = notebook['nbformat'];
  if (format === 4 && Array.isArray(notebook['cells'])) return;
  if (typeof format === 'number' && format < 4)
    throw notebookError(
      `${name} is in notebook format ${format}; expected format 4. Convert it with \`jupyter nbconvert --to notebook --nbformat 4 ${name}\`.`,
    );
  throw notebookError(
    format === undefined || format === 4
      ? `${name} is not a notebook: it has no ${format === 4 ? 'cells' : 'nbformat'}.`
      : `${name} is in notebook format ${String(format)}; expected format 4.`,
  );
}

function requireLanguage(name: string, metadata: unknown): void {
  const partOf = (key: string, field: string) => {
    const part = isObject(metadata) ? metadata[key] : undefined;
    const text = isObject(part) ? part[field] : undefined;
    return typeof text === 'string' ? text : undefined;
  };
  const language = partOf('language_info', 'name') ?? partOf('kernelspec', 'language');
  if (language === undefined || languages.includes(language.toLowerCase())) return;
  const kernel = partOf('kernelspec', 'display_name');
  throw notebookError(
    `${name} is a notebook of ${language}${kernel === undefined ? '' : ` (kernel ${kernel})`}; expected TypeScript or JavaScript. ` +
      'Choose the kernel of Deno or tslab in Jupyter, or name the notebook that you meant.',
  );
}

function cellOf(name: string, number: number, raw: Record<string, unknown>): NotebookCell {
  const { source, metadata, execution_count: count } = raw;
  const text = Array.isArray(source) ? source.join('') : source;
  if (typeof text !== 'string') throw notebookError(`${name} is damaged: code cell ${number} has no source.`);
  const tags = isObject(metadata) && Array.isArray(metadata['tags']) ? metadata['tags'].map(String) : [];
  return {
    number,
    executionCount: typeof count === 'number' ? count : undefined,
    tags,
    lines: text.split(/\r\n|\r|\n/),
  };
}

function reasonToSkip({ tags, lines }: NotebookCell): string | undefined {
  const tag = tags.find((each) => skippingTags.includes(each));
  if (tag !== undefined) return `tag ${tag}`;
  const first = lines.find((line) => line.trim() !== '');
  return first?.startsWith('%%') ? (/^%%\s*\w+/.exec(first)?.[0] ?? '%%') : undefined;
}

/** `!x && y` and `% y` are code: a command has a second word that is no operator, or is alone. */
function isMagic(line: string): boolean {
  if (/^%[a-z_]\w*(\s|$)/i.test(line)) return true;
  return /^![ \t]*[\w./~-]+([ \t]*$|[ \t]+(?!(in|instanceof)\b)(-{1,2}\w|[\w.~"'$@]|\/\S))/.test(line);
}

function withoutMagics(cell: NotebookCell, skipped: string[]): NotebookCell {
  const lines = cell.lines.map((line, index) => {
    if (!isMagic(line)) return line;
    skipped.push(`${cellName(cell)}, line ${index + 1} (${line.trim().slice(0, 40)})`);
    return '';
  });
  return { ...cell, lines };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
