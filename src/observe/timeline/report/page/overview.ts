// The whole timeline in one strip, with a frame around what the picture shows: where to look next. A click or a drag moves the frame.

import type { Palette } from './colours.ts';
import type { RankRows } from './rows.ts';
import type { Span } from './span.ts';

const bins = 600;
const kinds = ['compute', 'communication', 'waiting'] as const;
type Kind = (typeof kinds)[number];
export type Shares = Readonly<Record<Kind, Float64Array>>;

/** For each part of the timeline, which share of it the ranks spend with each kind of work. */
export function sharesOver(ranks: readonly RankRows[], endUs: number, names: readonly string[]): Shares {
  const shares: Shares = {
    compute: new Float64Array(bins),
    communication: new Float64Array(bins),
    waiting: new Float64Array(bins),
  };
  const binUs = endUs / bins;
  for (const { rows } of ranks) {
    const hasPhases = rows.some(({ kind }) => kind === 'phase');
    for (const { kind, depth, from, to, name } of rows) {
      for (let at = 0; at < from.length; at++) {
        const text = names[name[at] as number] ?? '';
        const strip = stripOf(kind, depth, text, hasPhases);
        if (strip === undefined) continue;
        const [start, end] = [from[at] as number, to[at] as number];
        const last = Math.min(bins - 1, Math.floor(end / binUs));
        for (let bin = Math.floor(start / binUs); bin <= last; bin++) {
          const part = Math.min(end, (bin + 1) * binUs) - Math.max(start, bin * binUs);
          shares[strip][bin] = (shares[strip][bin] as number) + part / binUs / ranks.length;
        }
      }
    }
  }
  return shares;
}

function stripOf(kind: string, depth: number, name: string, hasPhases: boolean): Kind | undefined {
  if (kind === 'phase') return name === 'EXPOSED_COMMUNICATION' ? 'communication' : 'compute';
  if (kind === 'operation') return hasPhases ? undefined : 'communication';
  return kind === 'part' && depth === 1 && name.startsWith('NEGOTIATE') ? 'waiting' : undefined;
}

export function paintOverview(
  context: CanvasRenderingContext2D,
  { width, height, gutter, palette, shares, span, endUs }: OverviewScene,
): void {
  context.fillStyle = palette.card;
  context.fillRect(0, 0, width, height);
  const perBin = (width - gutter) / bins;
  for (let bin = 0; bin < bins; bin++) {
    const share = (kind: Kind) => Math.min(1, shares[kind][bin] as number);
    const communication = share('communication');
    const waiting = Math.min(share('waiting'), communication);
    const parts: [Kind, number][] = [
      ['compute', Math.min(share('compute'), 1 - communication)],
      ['communication', communication - waiting],
      ['waiting', waiting],
    ];
    let bottom = height - 3;
    for (const [kind, part] of parts) {
      const size = part * (height - 6);
      context.fillStyle = palette[kind];
      context.fillRect(gutter + bin * perBin, bottom - size, perBin + 0.5, size);
      bottom -= size;
    }
  }
  const perUs = (width - gutter) / endUs;
  const left = gutter + span.fromUs * perUs;
  const right = Math.max(gutter + span.toUs * perUs, left + 3);
  context.fillStyle = palette.page;
  context.globalAlpha = 0.65;
  context.fillRect(gutter, 0, left - gutter, height);
  context.fillRect(right, 0, width - right, height);
  context.globalAlpha = 1;
  context.strokeStyle = palette.ink;
  context.lineWidth = 1.5;
  context.strokeRect(left, 1, right - left, height - 2);
}

export interface OverviewScene {
  readonly width: number;
  readonly height: number;
  readonly gutter: number;
  readonly palette: Palette;
  readonly shares: Shares;
  readonly span: Span;
  readonly endUs: number;
}
