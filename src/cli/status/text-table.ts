// Tables as lines of text. Cells come from other processes: what could move a cursor is taken out of them.

import { plain } from '../../console/terminal-text.ts';

export interface TextColumn {
  readonly title: string;
  readonly align: 'left' | 'right';
  /** Longer cells are cut. */
  readonly max: number;
  /** Left out if all its cells are empty. */
  readonly isOptional?: true;
}

/** A line of titles, and one for each row. */
export function textTable(columns: readonly TextColumn[], rows: readonly (readonly string[])[]): string[] {
  const cells = rows.map((row) => columns.map(({ max }, i) => cut(plain(row[i] as string), max)));
  const shown = columns.flatMap((column, i) =>
    column.isOptional && cells.every((row) => row[i] === '') ? [] : [{ ...column, i }],
  );
  const lines = [columns.map(({ title }) => title), ...cells].map((row) =>
    shown.map(({ i }) => row[i] as string),
  );
  const widths = shown.map((_, at) => Math.max(...lines.map((line) => (line[at] as string).length)));
  return lines.map((line) =>
    line
      .map((cell, at) => {
        const width = widths[at] as number;
        return shown[at]?.align === 'right' ? cell.padStart(width) : cell.padEnd(width);
      })
      .join('  ')
      .trimEnd(),
  );
}

export function cut(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max - 1)}…`;
}
