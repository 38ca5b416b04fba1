// Tables as lines of text. Cells come from other processes: what could move a cursor is taken out of them.

import { plain } from '../../console/terminal-text.ts';

export interface TextColumn {
  readonly title: string;
  readonly align: 'left' | 'right';
  /** Longer cells are cut. */
  readonly max: number;
}

/** A line of titles, and one for each row. */
export function textTable(columns: readonly TextColumn[], rows: readonly (readonly string[])[]): string[] {
  const shown = rows.map((row) => columns.map(({ max }, i) => cut(plain(row[i] as string), max)));
  const lines = [columns.map(({ title }) => title), ...shown];
  const widths = columns.map((_, i) => Math.max(...lines.map((line) => (line[i] as string).length)));
  return lines.map((line) =>
    line
      .map((cell, i) => {
        const width = widths[i] as number;
        return columns[i]?.align === 'right' ? cell.padStart(width) : cell.padEnd(width);
      })
      .join('  ')
      .trimEnd(),
  );
}

export function cut(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max - 1)}…`;
}
