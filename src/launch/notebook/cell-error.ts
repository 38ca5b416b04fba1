// The error of a rank of a notebook, as its author needs it: rank, cell and line, and that cell's source with the line marked.

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
  const place = notebook === undefined ? undefined : placeIn(notebook, lines);
  const where = place === undefined ? name : `${name}, ${cellName(place.cell)}, line ${place.line}`;
  const quote = place === undefined ? '' : `\n\n${excerpt(place.cell, place.line, place.column)}`;
  return new HorovodError('ERR_HVD_RUN', `launch: ${who} failed in ${where}: ${message}${quote}`, {
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

function causeOf(message: string, lines: readonly string[]): Error {
  const [, name = 'Error', text = message] =
    /^(?:Uncaught )?(\w*Error)(?: \[\w+\])?: (.*)$/s.exec(message) ?? [];
  const cause = Object.assign(new Error(text), { name });
  cause.stack = lines.join('\n');
  return cause;
}
