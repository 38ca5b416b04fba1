// A notebook as one ES module: the code of its cells in order, compiled together, with a source map that has one source for each cell,
// `train.ipynb cell 6`. Everything a mistake in a cell may cause is reported with that cell and its line.

import { decodeMappings, encodeMappings, type LineOwner, type Segment } from './cell-source-map.ts';
import { declares, findEarlyError, type GeneratedLine } from './early-errors.ts';
import { ImportMerger } from './imports.ts';
import { cellName, excerpt, type Notebook, type NotebookCell, notebookError } from './notebook.ts';

export interface Compiled {
  readonly code: string;
  /** JSON */
  readonly map: string;
}

/** What a compiler throws for code that it cannot read. Lines count from 1, columns from 0. */
export interface CompilerError {
  readonly message: string;
  readonly startLine?: number;
  readonly startColumn?: number;
}

/** From TypeScript to JavaScript, with the statements of imports on lines of their own. */
export type Compile = (source: string) => Compiled;

/** Throws ERR_HVD_NOTEBOOK. */
export function notebookModule(notebook: Notebook, compile: Compile): Compiled {
  const { text, owners } = join(notebook);
  const compiled = compileCells(notebook, text, owners, compile);
  const segments = decodeMappings((JSON.parse(compiled.map) as { mappings: string }).mappings);
  const place = (line: number) => ownerOf(segments, owners, line);
  const imports = new ImportMerger();
  const lines = compiled.code.split('\n').map((text, index): GeneratedLine => {
    const statement = moduleStatement(text, segments[index]);
    if (statement === undefined) return { text, statement };
    const line = text.slice(statement);
    const merged = imports.merge(line, `${notebook.name} ${nameOf(notebook, place(index))}`);
    if (merged === line) return { text, statement };
    // What was taken out of a line leaves only its beginning in the map.
    segments[index] = merged === '' ? [] : [{ ...(segments[index]?.[0] as Segment), column: 0 }];
    return { text: merged, statement: merged === '' ? undefined : 0 };
  });
  checkEarlyErrors(notebook, lines, place);
  const code = lines.map(({ text }) => text).join('\n');
  const prefix = requirePrefix(code);
  const map = {
    version: 3,
    sources: notebook.cells.map((cell) => `${notebook.name} cell ${cell.number}`),
    sourcesContent: notebook.cells.map((cell) => cell.lines.join('\n')),
    names: [],
    mappings: `${prefix === '' ? '' : ';'}${encodeMappings(segments, owners)}`,
  };
  return { code: `${prefix}${code}`, map: JSON.stringify(map) };
}

interface Joined {
  readonly text: string;
  /** Of each line. */
  readonly owners: readonly LineOwner[];
}

function join({ cells }: Pick<Notebook, 'cells'>): Joined {
  const lines: string[] = [];
  const owners: LineOwner[] = [];
  for (const [source, cell] of cells.entries()) {
    for (const [line, text] of cell.lines.entries()) {
      lines.push(text);
      owners.push({ source, line });
    }
    // A cell may end without a semicolon, and the next may begin with a bracket.
    lines.push(';');
    owners.push({ source, line: cell.lines.length - 1 });
  }
  return { text: lines.join('\n'), owners };
}

function compileCells(
  notebook: Notebook,
  text: string,
  owners: readonly LineOwner[],
  compile: Compile,
): Compiled {
  try {
    return compile(text);
  } catch (error) {
    // A bracket that is left open is noticed cells later: the first cell that is wrong by itself is the one to name.
    for (const [source, cell] of notebook.cells.entries()) {
      const own = join({ cells: [cell] });
      try {
        compile(own.text);
      } catch (alone) {
        const placed = own.owners.map(({ line }) => ({ source, line }));
        throw compilerError(notebook, alone as CompilerError, placed);
      }
    }
    throw compilerError(notebook, error as CompilerError, owners);
  }
}

function compilerError(notebook: Notebook, error: CompilerError, owners: readonly LineOwner[]): Error {
  const { message, startLine, startColumn } = error;
  const owner = startLine === undefined ? undefined : owners[startLine - 1];
  if (owner === undefined) return notebookError(`${notebook.name}: ${message}`, error);
  const cell = notebook.cells[owner.source] as NotebookCell;
  const isInCell =
    startLine !== undefined && cell.lines[owner.line] !== undefined && owners[startLine - 2] !== owner;
  const column = isInCell && startColumn !== undefined ? startColumn + 1 : undefined;
  return notebookError(describe(notebook, cell, owner.line, message, column), error);
}

function describe(
  notebook: Notebook,
  cell: NotebookCell,
  line: number,
  message: string,
  column?: number,
): string {
  const place = `${notebook.name} ${cellName(cell)}, line ${line + 1}${column === undefined ? '' : `, column ${column}`}`;
  return `${place}: ${message.trim()}\n${excerpt(cell, line + 1, column)}`;
}

/** Where in a line an import or export begins: the map knows it there, which it does not in texts and comments. */
function moduleStatement(text: string, segments: readonly Segment[] = []): number | undefined {
  const isOne = ({ column }: Segment) =>
    /^(import|export)\b(?!\s*[.(:=,;)])/.test(text.slice(column)) &&
    /^\s*$|\*\/\s*$/.test(text.slice(0, column));
  return segments.find(isOne)?.column;
}

function checkEarlyErrors(
  notebook: Notebook,
  lines: readonly GeneratedLine[],
  place: (line: number) => LineOwner | undefined,
): void {
  const error = findEarlyError(lines);
  if (error === undefined) return;
  const owner = place(error.line);
  const cell = notebook.cells[owner?.source ?? -1];
  if (owner === undefined || cell === undefined) throw notebookError(`${notebook.name}: ${error.message}.`);
  const { redeclared } = error;
  if (redeclared === undefined) throw notebookError(describe(notebook, cell, owner.line, error.message));
  const earlier = notebook.cells.slice(0, owner.source).find((_, source) =>
    declares(
      lines.filter((_line, index) => place(index)?.source === source),
      redeclared,
    ),
  );
  const again =
    earlier === undefined
      ? `${cellName(cell)} declares \`${redeclared}\` twice`
      : `${cellName(cell)} declares \`${redeclared}\`, as ${cellName(earlier)} does`;
  throw notebookError(
    `${notebook.name}: ${again}. All cells run as one module, where a name is declared once: rename one of them, assign a value instead of declaring it again, or give one cell the tag \`skip\`.\n${excerpt(cell, owner.line + 1)}`,
  );
}

/** The place of a generated line; a line without one belongs to the line before it. */
function ownerOf(
  segments: readonly (readonly Segment[])[],
  owners: readonly (LineOwner | undefined)[],
  line: number,
): LineOwner | undefined {
  for (let at = line; at >= 0; at--) {
    const first = segments[at]?.[0];
    if (first !== undefined) return owners[first.line];
  }
  return owners[0];
}

function nameOf(notebook: Notebook, owner: LineOwner | undefined): string {
  const cell = notebook.cells[owner?.source ?? -1];
  return cell === undefined ? '' : `${cellName(cell)}, line ${(owner?.line ?? 0) + 1}`;
}

/** tslab has require() in its cells, modules do not. */
function requirePrefix(code: string): string {
  if (
    !/(?<![.\w$])require\s*\(/.test(code) ||
    /\b(const|let|var|function)\s+require\b|\bas require\b/.test(code)
  )
    return '';
  return "import { createRequire as hvdCreateRequire } from 'node:module'; const require = hvdCreateRequire(import.meta.url);\n";
}
