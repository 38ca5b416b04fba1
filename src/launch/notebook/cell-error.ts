// The error of a rank of a notebook, as its author needs it: rank, cell and line, and that cell's source with the line marked.

import { basename } from 'node:path';
import { HorovodError } from '../../errors.ts';
import { cellName, excerpt, type Notebook, type NotebookCell } from './cells/notebook.ts';

/** An error as it is printed: its message, then its stack. */
export interface PrintedError {
  readonly rank: number;
  /** What the rank is called: 'rank 3'. */
  readonly name: string;
  readonly lines: readonly string[];
}

interface CellPlace {
  readonly cell: NotebookCell;
  readonly line: number;
  readonly column: number | undefined;
}

/** `report`: of the launcher, for what has no printed error (a rank that was killed). */
export function programError(
  program: { readonly name: string; readonly notebook: Notebook | undefined },
  error: PrintedError | undefined,
  report: string,
  exitCode: number,
): HorovodError {
  const { name, notebook } = program;
  if (error === undefined)
    return new HorovodError('ERR_HVD_RUN', `launch: ${name} has failed. ${report}`, { exitCode });
  const { rank, name: who, lines } = error;
  const frame = lines.findIndex((line) => /^\s+at /.test(line));
  const messageLines = frame < 0 ? lines : lines.slice(0, frame);
  const message = messageLines.join('\n').trim();
  const place = notebook && (placeIn(notebook, lines) ?? importPlace(notebook, message));
  const where = place === undefined ? name : `${name}, ${cellName(place.cell)}, line ${place.line}`;
  const quote = place === undefined ? '' : `\n\n${excerpt(place.cell, place.line, place.column)}`;
  const hint = /\b(Deno|tslab) is not defined/.test(message)
    ? '. Only its kernel has it: give the cell the tag `skip`, which ranks leave out.'
    : '';
  return new HorovodError('ERR_HVD_RUN', `launch: ${who} failed in ${where}: ${message}${hint}${quote}`, {
    rank,
    exitCode,
    cause: causeOf(message, lines),
  });
}

/** The first place in a cell: deeper ones are in libraries. */
function placeIn(notebook: Notebook, lines: readonly string[]): CellPlace | undefined {
  const name = notebook.name.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const pattern = new RegExp(`(?:^|[/\\s(])${name} cell (\\d+):(\\d+)(?::(\\d+))?`);
  for (const text of lines) {
    const [, number, line, column] = pattern.exec(text) ?? [];
    const cell = notebook.cells.find((each) => each.number === Number(number));
    if (cell !== undefined)
      return { cell, line: Number(line), column: column === undefined ? undefined : Number(column) };
  }
  return undefined;
}

/** Node names no line for an import that fails. */
function importPlace({ cells }: Notebook, message: string): CellPlace | undefined {
  const [, module] =
    /(?:Cannot find package|Cannot find module|The requested module) '([^']+)'/.exec(message) ?? [];
  if (module === undefined) return undefined;
  // A relative import is reported with its whole path.
  const name = basename(module);
  const isImport = (line: string) =>
    [...line.matchAll(/(?:from|import)\s*\(?\s*(['"])(.*?)\1/g)].some(
      ([, , specifier = '']) =>
        specifier === module || (module.startsWith('/') && basename(specifier) === name),
    );
  for (const cell of cells) {
    const line = cell.lines.findIndex(isImport);
    if (line >= 0) return { cell, line: line + 1, column: undefined };
  }
  return undefined;
}

function causeOf(message: string, lines: readonly string[]): Error {
  const [, name = 'Error', text = message] =
    /^(?:Uncaught )?(\w*Error)(?: \[\w+\])?: (.*)$/s.exec(message) ?? [];
  const cause = Object.assign(new Error(text), { name });
  cause.stack = lines.join('\n');
  return cause;
}
