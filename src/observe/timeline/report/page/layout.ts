// Where each row is drawn: ranks one below the other, each with a line for its name and its rows. In pixels, before scrolling. Pure.

import type { RankRows, Row } from './rows.ts';

export interface RowBox {
  readonly row: Row;
  readonly top: number;
  readonly height: number;
}

export interface RankBox {
  readonly rank: RankRows;
  readonly top: number;
  readonly height: number;
  readonly rows: readonly RowBox[];
}

export interface Layout {
  readonly ranks: readonly RankBox[];
  readonly height: number;
}

export const titleHeight = 20;
const rowHeights = { step: 16, phase: 20, operation: 20, other: 16 } as const;
const partHeights = [15, 9, 6] as const;
const gapOfTracks = 3;
const gapOfRanks = 8;

export function layOut(ranks: readonly RankRows[]): Layout {
  let top = 0;
  const boxes = ranks.map((rank) => {
    const start = top;
    top += titleHeight;
    const rows = rank.rows.map((row) => {
      const height = row.depth > 0 ? (partHeights[row.depth - 1] ?? 6) : rowHeights[kindAtTop(row)];
      if (row.depth === 0) top += gapOfTracks;
      const box = { row, top, height };
      top += height;
      return box;
    });
    top += gapOfRanks;
    return { rank, top: start, height: top - start, rows };
  });
  return { ranks: boxes, height: top };
}

function kindAtTop({ kind }: Row): keyof typeof rowHeights {
  return kind === 'part' ? 'other' : kind;
}

/** The row at this height; undefined: between rows. */
export function rowAt({ ranks }: Layout, y: number): Row | undefined {
  const rank = ranks.find(({ top, height }) => y >= top && y < top + height);
  return rank?.rows.find(({ top, height }) => y >= top && y < top + height)?.row;
}

export function boxOf({ ranks }: Layout, row: Row): RowBox | undefined {
  return ranks[row.rank.index]?.rows.find((box) => box.row === row);
}
